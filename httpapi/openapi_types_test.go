package httpapi

import (
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leasehold/cluster"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// wireTypes are the types of package wire.
var wireTypes = []reflect.Type{
	reflect.TypeFor[wire.AcquireRequest](), reflect.TypeFor[wire.RenewRequest](), reflect.TypeFor[wire.ReleaseRequest](),
	reflect.TypeFor[wire.RevokeRequest](), reflect.TypeFor[wire.WriteRequest](), reflect.TypeFor[wire.RenewManyRequest](), reflect.TypeFor[wire.Renewal](),
	reflect.TypeFor[wire.RenewMany](), reflect.TypeFor[wire.RenewResult](),
	reflect.TypeFor[wire.Grant](), reflect.TypeFor[wire.Release](), reflect.TypeFor[wire.Revoke](),
	reflect.TypeFor[wire.Lease](), reflect.TypeFor[wire.Last](), reflect.TypeFor[wire.StaleRead](), reflect.TypeFor[wire.Node](),
	reflect.TypeFor[wire.Leases](), reflect.TypeFor[wire.Request](), reflect.TypeFor[wire.Write](), reflect.TypeFor[wire.Register](),
	reflect.TypeFor[wire.RegisterWrite](), reflect.TypeFor[wire.Event](), reflect.TypeFor[wire.Heartbeat](), reflect.TypeFor[wire.Status](),
	reflect.TypeFor[wire.PeerStatus](), reflect.TypeFor[wire.Cluster](), reflect.TypeFor[wire.Member](), reflect.TypeFor[wire.Log](),
	reflect.TypeFor[wire.LogEntry](), reflect.TypeFor[wire.Version](), reflect.TypeFor[wire.Live](), reflect.TypeFor[wire.Ready](),
	reflect.TypeFor[wire.Problem](), reflect.TypeFor[wire.FaultRequest](), reflect.TypeFor[wire.Fault](), reflect.TypeFor[wire.Faults](),
}

func wireFaults(t testing.TB, d *document) (faults []string) {
	var described, known []string
	for name, schema := range d.node("components", "schemas") {
		if schema.(map[string]any)["type"] == "object" {
			described = append(described, name)
		}
	}
	for _, typ := range wireTypes {
		known = append(known, typ.Name())
	}
	faults = append(differ("types of package wire", described, typesIn(t, "wire")), differ("types of package wire in this test", known, typesIn(t, "wire"))...)
	for _, typ := range wireTypes {
		schema := d.node("components", "schemas", typ.Name())
		if schema == nil {
			continue
		}
		properties, _ := schema["properties"].(map[string]any)
		var names, required []string
		for _, f := range wireFields(typ, true) {
			names = append(names, f.name)
			if f.required {
				required = append(required, f.name)
			}
			property, _ := properties[f.name].(map[string]any)
			if property == nil {
				continue // differ says so
			}
			for _, fault := range typeFaults(d, f.typ, !f.omits, property) {
				faults = append(faults, fmt.Sprintf("%s.%s: %s", typ.Name(), f.name, fault))
			}
		}
		faults = append(faults, differ(typ.Name()+": fields", slices.Collect(maps.Keys(properties)), names)...)
		faults = append(faults, differ(typ.Name()+": fields that are always there", texts(schema["required"]), required)...)
	}
	return faults
}

// wireField is a field of a JSON body.
type wireField struct {
	name            string
	typ             reflect.Type
	omits, required bool
}

// wireFields lists the fields as encoding/json writes them. Those of an embedded
// pointer are there all together or not at all.
func wireFields(typ reflect.Type, always bool) (all []wireField) {
	for _, f := range reflect.VisibleFields(typ) {
		if len(f.Index) > 1 {
			continue // of what is embedded, see below
		}
		if f.Anonymous {
			if f.Type.Kind() == reflect.Pointer {
				all = append(all, wireFields(f.Type.Elem(), false)...)
			} else {
				all = append(all, wireFields(f.Type, always)...)
			}
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		omits := options == "omitempty"
		all = append(all, wireField{name, f.Type, omits, always && !omits})
	}
	return all
}

// typeFaults compares the type of a field. A pointer that is not left out may be
// null.
func typeFaults(d *document, typ reflect.Type, nullable bool, property map[string]any) (faults []string) {
	nullable = nullable && typ.Kind() == reflect.Pointer
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	schema := d.resolved(property)
	if typ.Kind() == reflect.Struct {
		ref := property["$ref"]
		if nullable {
			either, _ := schema["oneOf"].([]any)
			if len(either) != 2 || !reflect.DeepEqual(either[1], map[string]any{"type": "null"}) {
				return []string{"it may be null, which is not described"}
			}
			ref = either[0].(map[string]any)["$ref"]
		}
		if ref != "#/components/schemas/"+typ.Name() {
			return []string{fmt.Sprintf("it is described as %v, want %s", ref, typ.Name())}
		}
		return nil
	}
	if typ.Kind() == reflect.Slice {
		items, _ := schema["items"].(map[string]any)
		if schema["type"] != "array" {
			return []string{"it is a list, which is not described"}
		}
		return typeFaults(d, typ.Elem(), false, items)
	}
	want := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Int: "integer", reflect.Int64: "integer", reflect.Uint64: "integer",
	}[typ.Kind()]
	types := texts(schema["type"])
	if one, ok := schema["type"].(string); ok {
		types = []string{one}
	}
	if words := texts(schema["enum"]); types == nil && words != nil {
		types = []string{"string"}
	}
	wants := []string{want}
	if nullable {
		wants = append(wants, "null")
	}
	if !slices.Equal(types, wants) {
		faults = append(faults, fmt.Sprintf("its type is described as %v, want %v", types, wants))
	}
	if typ.Kind() == reflect.Uint64 && schema["minimum"] == nil {
		faults = append(faults, "it is never negative, which is not described")
	}
	return faults
}

var camel = regexp.MustCompile(`([a-z])([A-Z])`)

// wordFaults compares the lists of words with the constants they are made of.
func wordFaults(t testing.TB, d *document) (faults []string) {
	how := constants(t, "../lease", "How")
	var causes []string
	for _, c := range proposersCauses {
		causes = append(causes, c.code)
	}
	for _, err := range []error{lease.ErrHeld, lease.ErrCooling, lease.ErrNotHolder, lease.ErrLost, lease.ErrRequestEnded, lease.ErrStaleToken, lease.ErrNotLive} {
		causes = append(causes, causeOf(err))
	}
	var commands []string // by the names of their types: RenewMany is a renew-many
	for _, name := range typesWith(t, "../lease", "apply") {
		commands = append(commands, strings.ToLower(camel.ReplaceAllString(name, "$1-$2")))
	}
	var kinds []string
	for _, kind := range nodeKinds() {
		kinds = append(kinds, string(kind))
	}
	states := []string{requestOf(cluster.RequestView{Grant: fakeGrant}).State, requestOf(cluster.RequestView{Waiter: new(lease.Waiter)}).State, requestOf(cluster.RequestView{Ended: fakeEnded}).State}
	words := map[string][]string{
		"Lease state":            constants(t, "../lease", "State"),
		"Request state":          states,
		"Member suffrage":        {"voter", "nonvoter"}, // package cluster says so in the comment of its Member
		"Last how":               append(slices.Clone(how), ""),
		"Problem how":            how,
		"RenewResult how":        how,
		"RenewResult code":       {causeOf(lease.ErrNotHolder), causeOf(lease.ErrLost)}, // what refuses a renew, see TestOpenAPI_EveryAnswer
		"Request how":            how,
		"Event kind":             constants(t, "../lease", "Kind"),
		"Event cause":            causes,
		"RegisterWrite verdict":  constants(t, "../lease", "Verdict"),
		"FaultRequest fault":     kinds,
		"Fault fault":            kinds,
		"FaultRequest direction": constants(t, "../faults", "Direction"),
		"Fault direction":        constants(t, "../faults", "Direction"),
		"Write verdict":          {string(lease.Accepted)},
		"Status role":            constants(t, "../cluster", "Role"),
		"LogEntry kind":          append(commands, "noop", "barrier", "configuration"),
	}
	for typ, schema := range d.node("components", "schemas") {
		properties, _ := schema.(map[string]any)["properties"].(map[string]any)
		for name, property := range properties {
			field := typ + " " + name
			listed := texts(d.resolved(property.(map[string]any))["enum"])
			if real, known := words[field]; known || typ != "Compacted" { // which narrows the code
				faults = append(faults, differ(field, listed, real)...)
			}
			delete(words, field)
		}
	}
	for field := range words {
		faults = append(faults, field+" is not described")
	}
	return faults
}
