package lease

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of what clients may send.
const (
	MaxNameLen      = 255  // bytes
	MaxHolderLen    = 255  // bytes
	MaxRequestIDLen = 128  // bytes
	MaxValueLen     = 4096 // bytes
	MaxReasonLen    = 255  // bytes
)

// CheckName accepts 1 to [MaxNameLen] bytes of A-Z a-z 0-9 . _ : @ = + - in
// segments joined by single slashes, none of them empty, "." or "..". The
// alphabet is what survives in a URL path without escapes, so one lease has one
// spelling. The error is a *[FieldError].
func CheckName(name string) error {
	bad := func(format string, args ...any) error {
		return &FieldError{"name", fmt.Sprintf(format, args...) +
			fmt.Sprintf("; a name is 1 to %d bytes of A-Z a-z 0-9 . _ : @ = + - in segments joined by single slashes, none of them empty, \".\" or \"..\"", MaxNameLen)}
	}
	if name == "" {
		return bad("is empty")
	}
	if len(name) > MaxNameLen {
		return bad("is %d bytes long", len(name))
	}
	for _, r := range name {
		if r != '/' && !nameRune(r) {
			return bad("contains %q", r)
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return bad("has the segment %q", segment)
		}
	}
	return nil
}

func nameRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
		strings.ContainsRune("._:@=+-", r)
}

// CheckHolder accepts 1 to [MaxHolderLen] bytes of printable UTF-8. The error
// is a *[FieldError].
func CheckHolder(holder string) error {
	bounds := fmt.Sprintf("; a holder is 1 to %d bytes of printable UTF-8", MaxHolderLen)
	switch {
	case holder == "":
		return &FieldError{"holder", "is empty" + bounds}
	case len(holder) > MaxHolderLen:
		return &FieldError{"holder", fmt.Sprintf("is %d bytes long", len(holder)) + bounds}
	case !utf8.ValidString(holder):
		return &FieldError{"holder", "is not valid UTF-8" + bounds}
	}
	for _, r := range holder {
		if !unicode.IsPrint(r) {
			return &FieldError{"holder", fmt.Sprintf("contains %q", r) + bounds}
		}
	}
	return nil
}

// CheckRequestID accepts 1 to [MaxRequestIDLen] printable ASCII characters, the
// space among them, other than the slash. The error is a *[FieldError].
func CheckRequestID(id string) error {
	bounds := fmt.Sprintf("; a request id is 1 to %d printable ASCII characters without \"/\"", MaxRequestIDLen)
	switch {
	case id == "":
		return &FieldError{"request_id", "is empty" + bounds}
	case len(id) > MaxRequestIDLen:
		return &FieldError{"request_id", fmt.Sprintf("is %d bytes long", len(id)) + bounds}
	}
	for _, r := range id {
		if r < ' ' || r > '~' || r == '/' {
			return &FieldError{"request_id", fmt.Sprintf("contains %q", r) + bounds}
		}
	}
	return nil
}

// CheckValue accepts up to [MaxValueLen] bytes of UTF-8. The error is a
// *[FieldError].
func CheckValue(value string) error {
	bounds := fmt.Sprintf("; a value is at most %d bytes of UTF-8", MaxValueLen)
	switch {
	case len(value) > MaxValueLen:
		return &FieldError{"value", fmt.Sprintf("is %d bytes long", len(value)) + bounds}
	case !utf8.ValidString(value):
		return &FieldError{"value", "is not valid UTF-8" + bounds}
	}
	return nil
}

// CheckReason accepts 1 to [MaxReasonLen] bytes of printable UTF-8. The error is
// a *[FieldError].
func CheckReason(reason string) error {
	bounds := fmt.Sprintf("; a reason is 1 to %d bytes of printable UTF-8", MaxReasonLen)
	switch {
	case reason == "":
		return &FieldError{"reason", "is empty" + bounds}
	case len(reason) > MaxReasonLen:
		return &FieldError{"reason", fmt.Sprintf("is %d bytes long", len(reason)) + bounds}
	case !utf8.ValidString(reason):
		return &FieldError{"reason", "is not valid UTF-8" + bounds}
	}
	for _, r := range reason {
		if !unicode.IsPrint(r) {
			return &FieldError{"reason", fmt.Sprintf("contains %q", r) + bounds}
		}
	}
	return nil
}

func checkDuration(field string, d, longest time.Duration) error {
	if d < 0 || d > longest || d%time.Millisecond != 0 {
		return &FieldError{field, fmt.Sprintf("is %v; it must be whole milliseconds from 0 to %d", d, longest.Milliseconds())}
	}
	return nil
}
