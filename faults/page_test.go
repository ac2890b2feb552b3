package faults_test

import (
	"os"
	"strings"
	"testing"

	"leasehold/faults"
)

// docs/FAULTS.md has a row for every kind that a node can have, with its fields, and
// its schedule can be played.
func TestPage(t *testing.T) {
	source, err := os.ReadFile("../docs/FAULTS.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, schedule := make(map[string]string), ""
	for line := range strings.Lines(string(source)) {
		if cells := strings.Split(line, "|"); len(cells) == 6 {
			rows[strings.Trim(cells[1], " `")] = cells[2]
		}
		if strings.HasPrefix(line, `{"at_ms"`) {
			schedule += line
		}
	}
	for _, kind := range faults.NodeKinds() {
		fields, known := rows[string(kind)]
		names, _ := kind.Fields()
		want := ""
		if len(names) > 0 {
			want = "`" + strings.Join(names, "` `") + "`"
		}
		if !known || strings.TrimSpace(fields) != want {
			t.Errorf("the row of %s has the fields %s, want %s", kind, fields, want)
		}
	}
	if s, err := faults.ReadSchedule(strings.NewReader(schedule)); err != nil || len(s) != 3 {
		t.Errorf("its schedule: %d steps, %v", len(s), err)
	}
}
