package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// document is the description of the API, taken apart so that answers can be
// judged by it.
type document struct {
	tree       map[string]any // of JSON, with numbers as they are written
	operations map[string]*operation
	// elsewhere are the replies to what is no operation, by status.
	elsewhere  map[int]*reply
	anyProblem *reply
	compiler   *jsonschema.Compiler
	compiled   map[string]*jsonschema.Schema // by where they stand
}

// operation is one method of one path.
type operation struct {
	method, path string
	parameters   map[string]map[string]any // their schemas, by "in name"
	required     []string                  // parameters
	body         *jsonschema.Schema        // nil if it takes none
	replies      map[int]*reply
}

// reply is what one status of an operation comes with.
type reply struct {
	media    string
	headers  map[string]*jsonschema.Schema
	schema   *jsonschema.Schema
	needs    []string // fields that this reply requires beyond those of its type
	codes    []string // of a problem
	events   map[string]*jsonschema.Schema
	examples map[string]any
}

// theDocument is the description that is embedded. It is made once and then only
// read.
var theDocument = sync.OnceValues(func() (*document, error) { return newDocument(description) })

func described(t testing.TB) *document {
	t.Helper()
	d, err := theDocument()
	if err != nil {
		t.Fatalf("openapi.yaml: %v", err)
	}
	return d
}

// where the description is for the compiler of schemas.
const documentURL = "mem:///openapi.json"

func newDocument(source string) (*document, error) {
	var loose any
	if err := yaml.Unmarshal([]byte(source), &loose); err != nil {
		return nil, err
	}
	text, err := json.Marshal(loose)
	if err != nil {
		return nil, err
	}
	d := &document{
		operations: make(map[string]*operation), elsewhere: make(map[int]*reply),
		compiler: jsonschema.NewCompiler(), compiled: make(map[string]*jsonschema.Schema),
	}
	d.tree = parsed(text)
	if err := d.compiler.AddResource(documentURL, strict(text)); err != nil {
		return nil, err
	}
	problem, err := d.compile("components", "schemas", "Problem")
	if err != nil {
		return nil, err
	}
	d.anyProblem = &reply{schema: problem}
	for path, item := range d.node("paths") {
		for method := range item.(map[string]any) {
			o, err := d.operation(path, method)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			d.operations[o.method+" "+path] = o
		}
	}
	for status, name := range map[int]string{400: "Invalid", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed"} {
		if d.elsewhere[status], err = d.reply("components", "responses", name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return d, nil
}

// strict is the description for this test: an answer may have no field that is
// not described. Clients are told to expect more.
func strict(text []byte) any {
	tree := parsed(text)
	schemas := tree["components"].(map[string]any)["schemas"].(map[string]any)
	for _, s := range schemas {
		if s := s.(map[string]any); s["type"] == "object" {
			s["additionalProperties"] = false
		}
	}
	return tree
}

func parsed(text []byte) map[string]any {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil
	}
	object, _ := tree.(map[string]any)
	return object
}

// node is the object at a path, nil if there is none.
func (d *document) node(path ...string) map[string]any {
	object := d.tree
	for _, key := range path {
		object, _ = object[key].(map[string]any)
	}
	return object
}

// follow leads to what a reference means, and gives the path of it.
func (d *document) follow(path ...string) (string, map[string]any, []string) {
	object := d.node(path...)
	if ref, ok := object["$ref"].(string); ok && len(object) == 1 {
		path = strings.Split(strings.TrimPrefix(ref, "#/"), "/")
		return path[len(path)-1], d.node(path...), path
	}
	return "", object, path
}

// resolved is a schema with what it refers to; what stands beside the reference
// counts for more.
func (d *document) resolved(schema map[string]any) map[string]any {
	ref, ok := schema["$ref"].(string)
	if !ok {
		return schema
	}
	all := maps.Clone(d.resolved(d.node(strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)))
	if all == nil {
		return nil
	}
	maps.Copy(all, schema)
	delete(all, "$ref")
	return all
}

// inPointer writes a key as JSON pointers have it.
var inPointer = strings.NewReplacer("~", "~0", "/", "~1")

// compile makes the schema at a path ready for use. Not for several goroutines.
func (d *document) compile(path ...string) (*jsonschema.Schema, error) {
	pointer := ""
	for _, key := range path {
		pointer += "/" + url.PathEscape(inPointer.Replace(key))
	}
	if d.compiled[pointer] == nil {
		s, err := d.compiler.Compile(documentURL + "#" + pointer)
		if err != nil {
			return nil, err
		}
		d.compiled[pointer] = s
	}
	return d.compiled[pointer], nil
}

func (d *document) operation(path, method string) (*operation, error) {
	at := []string{"paths", path, method}
	node := d.node(at...)
	o := &operation{method: strings.ToUpper(method), path: path, parameters: make(map[string]map[string]any), replies: make(map[int]*reply)}
	list, _ := node["parameters"].([]any)
	for _, p := range list {
		p := d.resolved(p.(map[string]any))
		name := fmt.Sprint(p["in"], " ", p["name"])
		if o.parameters[name] != nil {
			return nil, fmt.Errorf("%s is described twice", name)
		}
		o.parameters[name], _ = p["schema"].(map[string]any)
		if p["required"] == true {
			o.required = append(o.required, name)
		}
	}
	var err error
	if node["requestBody"] != nil {
		if o.body, err = d.compile(append(at, "requestBody", "content", "application/json", "schema")...); err != nil {
			return nil, err
		}
	}
	replies, _ := node["responses"].(map[string]any)
	for status := range replies {
		n, err := strconv.Atoi(status)
		if err != nil {
			return nil, err
		}
		if o.replies[n], err = d.reply(append(slices.Clone(at), "responses", status)...); err != nil {
			return nil, fmt.Errorf("%s: %w", status, err)
		}
	}
	return o, nil
}

func (d *document) reply(path ...string) (*reply, error) {
	_, node, at := d.follow(path...)
	r := &reply{headers: make(map[string]*jsonschema.Schema)}
	headers, _ := node["headers"].(map[string]any)
	for name := range headers {
		header, _, headerAt := d.follow(append(slices.Clone(at), "headers", name)...)
		s, err := d.compile(append(slices.Clone(headerAt), "schema")...)
		if err != nil {
			return nil, fmt.Errorf("header %s (%s): %w", name, header, err)
		}
		r.headers[name] = s
	}
	content, _ := node["content"].(map[string]any)
	if len(content) != 1 {
		return nil, fmt.Errorf("it has %d content types, want 1", len(content))
	}
	for r.media = range content {
		return r, d.content(r, append(slices.Clone(at), "content", r.media))
	}
	return r, nil
}

// content fills in what a reply says of its body.
func (d *document) content(r *reply, at []string) (err error) {
	node := d.node(at...)
	if strings.HasSuffix(r.media, "json") {
		if r.schema, err = d.compile(append(slices.Clone(at), "schema")...); err != nil {
			return err
		}
	}
	r.examples, _ = node["examples"].(map[string]any)
	events, _ := node["x-events"].(map[string]any)
	for kind := range events {
		if r.events == nil {
			r.events = make(map[string]*jsonschema.Schema)
		}
		if r.events[kind], err = d.compile(append(slices.Clone(at), "x-events", kind)...); err != nil {
			return err
		}
	}
	_, schema, _ := d.follow(append(slices.Clone(at), "schema")...)
	r.needs = texts(schema["required"])
	properties, _ := schema["properties"].(map[string]any)
	if code, ok := properties["code"].(map[string]any); ok {
		r.codes = texts(code["enum"])
	}
	return nil
}

func texts(list any) (all []string) {
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	return all
}
