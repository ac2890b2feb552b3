package sqlfence_test

import (
	"database/sql/driver"
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/fence/sqlfence"
)

var items = sqlfence.Items[string]{Dialect: sqlfence.PostgreSQL, Table: "batch", Key: "id"}

// TestItems_Claim_Answers ensures that what the database gives is what is claimed,
// and that its errors come through.
func TestItems_Claim_Answers(t *testing.T) {
	db, s := play(t, exchange{rows: [][]driver.Value{{"x", int64(3)}, {"y", int64(1)}}}, exchange{err: stateError("40001")})
	got, err := items.Claim(t.Context(), db, "w1", 1500*time.Millisecond, 2)
	if err != nil || len(got) != 2 || got[0].Key != "x" || got[0].Fence != 3 || got[1].Key != "y" || got[1].Fence != 1 {
		t.Errorf("claimed %v, %v", got, err)
	}
	if args := s.asked[0].args; args[0].Value != "w1" || args[1].Value != int64(1500) || args[2].Value != int64(2) {
		t.Errorf("asked with %v", args)
	}
	if _, err := items.Claim(t.Context(), db, "w1", time.Second, 2); !errors.Is(err, sqlfence.ErrRetry) {
		t.Errorf("a serialization failure: %v, want ErrRetry", err)
	}
}

// TestItems_Refuses ensures that what cannot be right never gets to the database.
func TestItems_Refuses(t *testing.T) {
	db, _ := play(t)
	for name, try := range map[string]func() error{
		"no dialect": func() error {
			_, err := sqlfence.Items[string]{Table: "batch", Key: "id"}.Claim(t.Context(), db, "w1", time.Second, 1)
			return err
		},
		"no table": func() error {
			return sqlfence.Items[string]{Dialect: sqlfence.SQLite, Key: "id"}.Complete(t.Context(), db, sqlfence.Item[string]{})
		},
		"no limit":     func() error { _, err := items.Claim(t.Context(), db, "w1", time.Second, 0); return err },
		"no time":      func() error { _, err := items.Claim(t.Context(), db, "w1", 0, 1); return err },
		"extend for 0": func() error { _, err := items.Extend(t.Context(), db, sqlfence.Item[string]{}, 0); return err },
	} {
		if err := try(); err == nil || strings.Contains(err.Error(), "script") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestItemError_Texts ensures that a refusal says what became of the item.
func TestItemError_Texts(t *testing.T) {
	for want, e := range map[string]*sqlfence.ItemError{
		"batch x was claimed with fence 1, and is gone":                      {},
		"batch x was claimed with fence 1, and is completed, with fence 2":   {Now: 2, Done: true},
		"batch x was claimed with fence 1, and was given back":               {Now: 1},
		`batch x was claimed with fence 1, and now has fence 2, of "worker"`: {Now: 2, Owner: "worker"},
	} {
		e.Table, e.Key, e.Fence = "batch", "x", 1
		if got := e.Error(); got != "the claim is over: "+want {
			t.Errorf("got  %s\nwant the claim is over: %s", got, want)
		}
	}
}
