package faults

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// Parse reads a fault that a node can have. Every error is a *[FieldError].
func Parse(data []byte) (Fault, error) {
	var f Fault
	err := readObject(data, func(name string, v any) (known bool, err error) { return f.set(name, v) })
	if err != nil {
		return Fault{}, err
	}
	if f.Kind.OfProcess() {
		return Fault{}, refuse("fault", "is %s, which a node cannot do to itself; that is for schedules", f.Kind)
	}
	return f, f.Validate()
}

// parseStep reads a line of a schedule.
func parseStep(data []byte) (Step, error) {
	var s Step
	timed := false
	err := readObject(data, func(name string, v any) (known bool, err error) {
		switch name {
		case "at_ms":
			timed = true
			s.AtMillis, err = number(name, v, boundsOf[name])
			return true, err
		case "node":
			s.Node, err = text(name, v)
			return true, err
		}
		return s.Fault.set(name, v)
	})
	if err == nil && !timed {
		err = refuse("at_ms", "is missing; it says when, in milliseconds after the start")
	}
	if err == nil {
		err = s.Validate()
	}
	return s, err
}

// set gives a field the value that stands in JSON.
func (f *Fault) set(name string, v any) (known bool, err error) {
	switch name {
	case "fault":
		var kind string
		kind, err = text(name, v)
		f.Kind = Kind(kind)
	case "direction":
		var direction string
		direction, err = text(name, v)
		f.Direction = Direction(direction)
	case "path":
		f.Path, err = text(name, v)
	case "peers":
		f.Peers, err = list(name, v)
	case "percent":
		f.Percent, err = number(name, v, bounds{1, 200})
	case "duration_ms":
		f.DurationMillis, err = number(name, v, boundsOf[name])
	case "delay_ms":
		f.DelayMillis, err = number(name, v, boundsOf[name])
	case "jitter_ms":
		f.JitterMillis, err = number(name, v, boundsOf[name])
	case "count":
		f.Count, err = number(name, v, boundsOf[name])
	case "shift_ms":
		if f.ShiftMillis, err = number(name, v, boundsOf[name]); err == nil && f.ShiftMillis == 0 {
			err = refuse(name, "must not be 0")
		}
	default:
		return false, nil
	}
	return true, err
}

// text is a string that says something: what is absent is left out.
func text(name string, v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", refuse(name, "must be a string")
	}
	if s == "" {
		return "", refuse(name, "is empty; leave it out if it has no value")
	}
	return s, nil
}

// number is a whole number as such: no fraction and no exponent.
func number(name string, v any, within bounds) (int64, error) {
	n, ok := v.(json.Number)
	i, err := strconv.ParseInt(n.String(), 10, 64)
	if !ok || err != nil || n == "-0" || !within.has(i) {
		got := clip(n.String())
		if !ok {
			got = "something else"
		}
		return 0, refuse(name, "must be a whole number from %d to %d, not %s", within.min, within.max, got)
	}
	return i, nil
}

func list(name string, v any) ([]string, error) {
	items, ok := v.([]any)
	if !ok {
		return nil, refuse(name, "must be a list of strings")
	}
	all := make([]string, 0, len(items))
	for _, item := range items {
		s, ok := item.(string)
		if !ok {
			return nil, refuse(name, "must be a list of strings")
		}
		all = append(all, s)
	}
	return all, nil
}

// readObject calls set for each member of the one JSON object in data.
func readObject(data []byte, set func(name string, v any) (known bool, err error)) error {
	if !json.Valid(data) {
		return refuse("body", "is not one JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return refuse("body", "must be one JSON object")
	}
	seen := make(map[string]bool)
	for d.More() {
		// The decoder puts U+FFFD where text is broken. No name and no value of ours
		// may contain that character, so broken text is refused.
		token, err := d.Token()
		name, _ := token.(string)
		if err != nil {
			return refuse("body", "is not valid JSON: %v", err)
		}
		if name == "" {
			return refuse("body", "has a field without a name")
		}
		if seen[name] {
			return refuse(clip(name), "is given twice")
		}
		seen[name] = true
		var v any
		if err := d.Decode(&v); err != nil {
			return refuse("body", "is not valid JSON: %v", err)
		}
		if v == nil {
			return refuse(clip(name), "is null; leave a field out that has no value")
		}
		known, err := set(name, v)
		if err != nil {
			return err
		}
		if !known {
			return refuse(clip(name), "is not a field of a fault")
		}
	}
	return nil
}
