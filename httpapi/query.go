package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"leasehold/lease"
)

// via is the parameter that a node adds when it sends a request on to the
// leader. It names that node.
const via = "via"

// parseQuery reads the query of a request. net/url would drop what it does not
// understand and let the first of two duplicates win; a client that misspells
// "consistency" must not get the other kind of read.
func parseQuery(raw string, known []string) (map[string]string, error) {
	if raw == "" {
		return nil, nil
	}
	values := make(map[string]string)
	for pair := range strings.SplitSeq(raw, "&") {
		rawName, rawValue, _ := strings.Cut(pair, "=")
		name, err := unescape("query", rawName)
		if err != nil {
			return nil, err
		}
		if name != via && !slices.Contains(known, name) {
			return nil, unknownParameter(name, known)
		}
		if _, twice := values[name]; twice {
			return nil, &lease.FieldError{Field: name, Detail: "is given twice in the query"}
		}
		if values[name], err = unescape(name, rawValue); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// unescape decodes a part of a query. The error names the parameter.
func unescape(param, raw string) (string, error) {
	bad := func(format string, args ...any) error {
		return &lease.FieldError{Field: param, Detail: fmt.Sprintf(format, args...)}
	}
	if strings.Contains(raw, ";") {
		return "", bad(`has a ";", which does not separate parameters; write &, or %%3B if it is meant`)
	}
	if strings.Contains(raw, "+") {
		// A form means a space by it, a URL means a plus. Names may contain one,
		// so a guess would now and then pick the wrong lease.
		return "", bad(`has a bare "+", which some programs take for a space; write %%2B`)
	}
	text, err := url.PathUnescape(raw)
	if err != nil {
		return "", bad("is badly escaped: %v", err)
	}
	if !utf8.ValidString(text) {
		return "", bad("is not valid UTF-8")
	}
	return text, nil
}

func unknownParameter(name string, known []string) error {
	detail := "is not a parameter of this call, which takes none"
	if len(known) > 0 {
		detail = "is not a parameter of this call, which takes " + strings.Join(known, ", ")
	}
	if name == "" {
		return &lease.FieldError{Field: "query", Detail: "has a parameter without a name"}
	}
	return &lease.FieldError{Field: clip(name), Detail: detail}
}

// clip shortens text of a client for a message.
func clip(text string) string {
	const most = 64
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…" // the cut may go through a character
}
