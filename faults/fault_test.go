package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"leasehold/faults"
)

// good is a fault of each kind that a node can have, as it is written.
var good = []string{
	`{"fault":"cut","duration_ms":1}`,
	`{"fault":"cut","peers":["n2","clients"],"direction":"out","duration_ms":600000}`,
	`{"fault":"jam","peers":["n2"],"direction":"in","duration_ms":2500}`,
	`{"fault":"delay","direction":"both","delay_ms":1,"jitter_ms":60000,"duration_ms":1}`,
	`{"fault":"loss","peers":["a.b_c-D9"],"percent":100,"duration_ms":1}`,
	`{"fault":"drop_reply","count":1000,"path":"/v1/acquire","duration_ms":1}`,
	`{"fault":"slow_fsync","delay_ms":60000,"duration_ms":1}`,
	`{"fault":"disk_full","duration_ms":1}`,
	`{"fault":"clock_rate","percent":50,"duration_ms":1}`,
	`{"fault":"clock_rate","percent":200,"duration_ms":1}`,
	`{"fault":"clock_stall","duration_ms":1}`,
	`{"fault":"wall_shift","shift_ms":-86400000,"duration_ms":1}`,
}

// What is written in a schedule is read as what it was, and so is a fault alone.
func TestSchedule_WrittenAndRead(t *testing.T) {
	var text strings.Builder
	text.WriteString("# a comment\n\n")
	for i, line := range good {
		f, err := faults.Parse([]byte(line))
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		fmt.Fprintf(&text, ` {"at_ms":%d,"node":"n%d",%s`+"\n", 100*i, i, line[1:])
		if f.String() == "" || f.Duration() <= 0 {
			t.Errorf("%s is %q for %v", line, f, f.Duration())
		}
	}
	text.WriteString(`{"at_ms":5000,"node":"leader","fault":"kill"}` + "\n")
	text.WriteString(`{"at_ms":5000,"node":"all","fault":"pause","duration_ms":5}` + "\n")
	s, err := faults.ReadSchedule(strings.NewReader(text.String()))
	if err != nil || len(s) != len(good)+2 {
		t.Fatalf("%d steps, %v", len(s), err)
	}
	var written bytes.Buffer
	if err := s.Write(&written); err != nil {
		t.Fatal(err)
	}
	again, err := faults.ReadSchedule(&written)
	if err != nil || !reflect.DeepEqual(s, again) {
		t.Errorf("written and read again: %v\n%+v\n%+v", err, s, again)
	}
	if !strings.Contains(text.String(), good[1][1:]) || again[1].Kind != faults.Cut || again[1].AtMillis != 100 || again[1].Peers[1] != faults.Clients {
		t.Errorf("the second step is %+v", again[1])
	}
}

// What is refused is refused with the name of a field, and the bounds if it has any.
func TestParse_Hostile(t *testing.T) {
	for body, want := range map[string]string{
		``:       `body is not one JSON object`,
		`null`:   `body must be one JSON object`,
		`[]`:     `body must be one JSON object`,
		`{}`:     `fault must be one of cut, jam,`,
		`{} {}`:  `body is not one JSON object`,
		`{"":1}`: `body has a field without a name`,
		`{"fault":"cut","duration_ms":1,"at_ms":5}`:                         `at_ms is not a field of a fault`,
		`{"fault":"cut","duration_ms":1,"node":"n1"}`:                       `node is not a field of a fault`,
		`{"fault":"cut","duration_ms":1,"Peers":["n1"]}`:                    `Peers is not a field of a fault`,
		`{"fault":"cut","fault":"jam","duration_ms":1}`:                     `fault is given twice`,
		`{"fault":"cut","peers":null,"duration_ms":1}`:                      `peers is null`,
		`{"fault":"Cut","duration_ms":1}`:                                   `fault must be one of`,
		`{"fault":"kill","duration_ms":1}`:                                  `fault is kill, which a node cannot do to itself`,
		`{"fault":7,"duration_ms":1}`:                                       `fault must be a string`,
		`{"fault":"cut"}`:                                                   `duration_ms must be a whole number from 1 to 600000, not 0`,
		`{"fault":"cut","duration_ms":0}`:                                   `duration_ms must be a whole number from 1 to 600000, not 0`,
		`{"fault":"cut","duration_ms":-1}`:                                  `duration_ms must be a whole number from 1 to 600000, not -1`,
		`{"fault":"cut","duration_ms":600001}`:                              `duration_ms must be a whole number from 1 to 600000, not 600001`,
		`{"fault":"cut","duration_ms":1.0}`:                                 `duration_ms must be a whole number from 1 to 600000, not 1.0`,
		`{"fault":"cut","duration_ms":1e3}`:                                 `duration_ms must be a whole number from 1 to 600000, not 1e3`,
		`{"fault":"cut","duration_ms":"1"}`:                                 `duration_ms must be a whole number`,
		`{"fault":"cut","duration_ms":99999999999999999999}`:                `duration_ms must be a whole number`,
		`{"fault":"cut","duration_ms":1,"peers":[]}`:                        `peers must be a list of 1 to 16 ids`,
		`{"fault":"cut","duration_ms":1,"peers":"n2"}`:                      `peers must be a list of strings`,
		`{"fault":"cut","duration_ms":1,"peers":["n2",3]}`:                  `peers must be a list of strings`,
		`{"fault":"cut","duration_ms":1,"peers":["n2","n2"]}`:               `peers has n2 in it twice`,
		`{"fault":"cut","duration_ms":1,"peers":["n 2"]}`:                   `peers has "n 2" in it`,
		`{"fault":"cut","duration_ms":1,"peers":["\ud800"]}`:                `peers has`,
		`{"fault":"cut","duration_ms":1,"direction":""}`:                    `direction is empty`,
		`{"fault":"cut","duration_ms":1,"direction":"up"}`:                  `direction must be out, in or both`,
		`{"fault":"cut","duration_ms":1,"delay_ms":5}`:                      `delay_ms is not a field of cut, which takes duration_ms and, if wanted, peers, direction`,
		`{"fault":"delay","duration_ms":1}`:                                 `delay_ms is missing; delay takes delay_ms, duration_ms`,
		`{"fault":"delay","duration_ms":1,"delay_ms":0}`:                    `delay_ms must be a whole number from 1 to 60000, not 0`,
		`{"fault":"delay","duration_ms":1,"delay_ms":1,"jitter_ms":0}`:      `jitter_ms must be`,
		`{"fault":"loss","duration_ms":1}`:                                  `percent is missing`,
		`{"fault":"loss","duration_ms":1,"percent":101}`:                    `percent must be a whole number from 1 to 100, not 101`,
		`{"fault":"clock_rate","duration_ms":1,"percent":49}`:               `percent must be a whole number from 50 to 200, not 49`,
		`{"fault":"clock_rate","duration_ms":1,"percent":201}`:              `percent must be a whole number from`,
		`{"fault":"drop_reply","duration_ms":1}`:                            `count is missing`,
		`{"fault":"drop_reply","duration_ms":1,"count":1001}`:               `count must be a whole number from 1 to 1000`,
		`{"fault":"drop_reply","duration_ms":1,"count":1,"path":"x"}`:       `path must be 1 to 255 printable ASCII`,
		`{"fault":"drop_reply","duration_ms":1,"count":1,"path":"/\ufffd"}`: `path must be 1 to 255 printable ASCII`,
		`{"fault":"wall_shift","duration_ms":1,"shift_ms":0}`:               `shift_ms must not be 0`,
		`{"fault":"wall_shift","duration_ms":1,"shift_ms":-0}`:              `shift_ms must be a whole number from -86400000 to 86400000, not -0`,
		`{"fault":"wall_shift","duration_ms":1,"shift_ms":86400001}`:        `shift_ms must be a whole number from -86400000 to 86400000`,
		`{"fault":"disk_full","duration_ms":1,"peers":["n2"]}`:              `peers is not a field of disk_full, which takes duration_ms`,
	} {
		_, err := faults.Parse([]byte(body))
		var bad *faults.FieldError
		if !errors.As(err, &bad) || !strings.HasPrefix(err.Error(), strings.Split(want, " ")[0]) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", body, err, want)
		}
	}
}

// A mistake in a schedule is told with its line.
func TestReadSchedule_NamesTheLine(t *testing.T) {
	const first = `{"at_ms":10,"node":"n1","fault":"clock_stall","duration_ms":1}` + "\n\n# more\n"
	for line, want := range map[string]string{
		`{"node":"n1","fault":"clock_stall","duration_ms":1}`:               "line 4: at_ms is missing",
		`{"at_ms":-1,"node":"n1","fault":"clock_stall","duration_ms":1}`:    "line 4: at_ms must be",
		`{"at_ms":9,"node":"n1","fault":"clock_stall","duration_ms":1}`:     "line 4: at_ms is 9, earlier than the 10 of the step before",
		`{"at_ms":10,"fault":"clock_stall","duration_ms":1}`:                "line 4: node is missing; it is an id, or leader, follower",
		`{"at_ms":10,"node":"n 1","fault":"clock_stall","duration_ms":1}`:   "line 4: node is \"n 1\"",
		`{"at_ms":10,"node":"n1","fault":"pause"}`:                          "line 4: duration_ms must be",
		`{"at_ms":10,"node":"n1","fault":"kill","peers":["n1"]}`:            "line 4: peers is not a field of kill",
		`{"at_ms":10,"node":"n1","fault":"clock_stall","duration_ms":1} {}`: "line 4: body is not one JSON object",
		`cut n1`: "line 4: body is not one JSON object",
		`{"at_ms":10,"node":"` + strings.Repeat("n", 70_000) + `"}`: "line 4: bufio.Scanner: token too long",
	} {
		if _, err := faults.ReadSchedule(strings.NewReader(first + line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s:\ngot  %v\nwant %s", line, err, want)
		}
	}
}

// A step for a role is for these nodes.
func TestResolve(t *testing.T) {
	five := []string{"n3", "n1", "n5", "n2", "n4"}
	for _, tc := range []struct {
		node, leader string
		ids          []string
		want         string
	}{
		{"n2", "", five, "n2"},
		{"leader", "n2", five, "n2"},
		{"follower", "n2", five, "n1"},
		{"follower", "n1", five, "n2"},
		{"minority", "n1", five, "n2 n3"},
		{"majority", "n4", five, "n4 n1 n2"},
		{"minority", "n1", five[:3], "n3"},
		{"majority", "n1", five[:3], "n1 n3"},
		{"all", "", five, "n1 n2 n3 n4 n5"},
		{"n9", "n1", five, "there is no node n9"},
		{"leader", "", five, "leader cannot be found"},
		{"majority", "", five, "majority cannot be found"},
		{"minority", "n1", []string{"n1", "n2"}, "minority cannot be found"},
		{"follower", "n1", []string{"n1"}, "follower cannot be found"},
	} {
		got, err := faults.Resolve(tc.node, tc.leader, tc.ids)
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if !strings.HasPrefix(text, tc.want) || err == nil && text != tc.want {
			t.Errorf("%s of %v led by %q: got %s, want %s", tc.node, tc.ids, tc.leader, text, tc.want)
		}
	}
}

// Whatever is accepted can be written, is read as the same, and can be played.
func FuzzParse(f *testing.F) {
	for _, line := range good {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fault, err := faults.Parse(data)
		if err != nil {
			if bad := (*faults.FieldError)(nil); !errors.As(err, &bad) || bad.Field == "" {
				t.Errorf("%q: %v names no field", data, err)
			}
			return
		}
		if err := fault.Validate(); err != nil {
			t.Errorf("%q was read and is not valid: %v", data, err)
		}
		var text bytes.Buffer
		s := faults.Schedule{{Node: "n1", Fault: fault}}
		if err := s.Write(&text); err != nil {
			t.Fatal(err)
		}
		again, err := faults.ReadSchedule(&text)
		if err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("%q: written and read again: %v, %+v", data, err, again)
		}
	})
}
