package check

import (
	"strings"
	"testing"
	"time"

	"leasehold/lease"
	"leasehold/torture/history"
)

// forged are entries with results that the real table would not give. Each breaks
// one rule; without its last step none does.
var forged = []struct {
	rule, says string
	steps      []step
}{
	{"P3", "entry 3 grants a with token 2", []step{
		forge(3, lease.Acquire{Name: "a", Holder: "x"}, lease.Event{Kind: lease.KindGranted, Token: 2, Holder: "x"}),
	}},
	{"P7", "entry 3 grants a to y while token 2 of x is live", []step{
		granted(2, "x"),
		granted(3, "y"),
	}},
	{"P8", "while the lock delay after token 2 runs", []step{
		granted(2, "x"),
		forge(3, lease.Revoke{Name: "a", Token: 2}, lease.Event{Kind: lease.KindRevoked, Token: 2, Holder: "x"}, lease.Event{Kind: lease.KindCooling, Token: 2}),
		granted(4, "y"),
	}},
	{"P8", "by its renewal at index 2, and it was renewed at index 3", []step{
		granted(2, "x"),
		forge(3, lease.Renew{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindRenewed, Token: 2, Holder: "x"}),
		forge(4, lease.Expire{Name: "a", Token: 2, Renewal: 2, Term: 1}, lease.Event{Kind: lease.KindExpired, Token: 2, Holder: "x"}),
	}},
	{"P8", "by a deadline of term 9", []step{
		granted(2, "x"),
		forge(3, lease.Expire{Name: "a", Token: 2, Renewal: 2, Term: 9}, lease.Event{Kind: lease.KindExpired, Token: 2, Holder: "x"}),
	}},
	{"P10", "comes with token 2 of a and has effect on token 4", []step{
		granted(2, "x"),
		forge(3, lease.Release{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindReleased, Token: 2, Holder: "x"}),
		granted(4, "y"),
		forge(5, lease.Release{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindReleased, Token: 4, Holder: "y"}),
	}},
	{"P10", "token 2 of a is renewed, and nobody held the lease", []step{
		granted(2, "x"),
		forge(3, lease.Release{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindReleased, Token: 2, Holder: "x"}),
		forge(4, lease.Renew{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindRenewed, Token: 2, Holder: "x"}),
	}},
	{"P10", "y uses token 2 of a, which is that of x", []step{
		granted(2, "x"),
		forge(3, lease.Renew{Name: "a", Holder: "y", Token: 2}, lease.Event{Kind: lease.KindRenewed, Token: 2, Holder: "x"}),
	}},
	{"P10", "queued at index 3, whose wait was over", []step{
		granted(2, "x"),
		queued(3, "y"),
		forge(4, lease.Abandon{Name: "a", Holder: "y", Place: 3}, lease.Event{Kind: lease.KindAbandoned, Place: 3, Holder: "y"}),
		handedOn(5, 2, "y", 3),
	}},
	{"P10", "under token 2 of a, which is not live", []step{
		forge(3, lease.Write{Register: "r", Token: 2, Lease: "a"}, lease.Event{Kind: lease.KindWritten, Token: 2, Register: true}),
	}},
	{"P6", "writes to r with token 2 after token 4", []step{
		forge(5, lease.Write{Register: "r", Token: 4}, lease.Event{Kind: lease.KindWritten, Token: 4, Register: true}),
		forge(6, lease.Write{Register: "r", Token: 2}, lease.Event{Kind: lease.KindWritten, Token: 2, Register: true}),
	}},
	{"P12", "grants a to the request queued at index 4, whose turn it was not", []step{
		granted(2, "x"),
		queued(3, "y"),
		queued(4, "z"),
		handedOn(5, 2, "z", 4),
	}},
	{"P12", "a is free after entry 4, and the request queued at index 3 was not granted", []step{
		granted(2, "x"),
		queued(3, "y"),
		forge(4, lease.Release{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindReleased, Token: 2, Holder: "x"}),
	}},
	{"P12", "ahead of the request queued at index 3", []step{
		granted(2, "x"),
		queued(3, "y"),
		forge(4, lease.Acquire{Name: "a", Holder: "z"}, lease.Event{Kind: lease.KindReleased, Token: 2, Holder: "x"}, lease.Event{Kind: lease.KindGranted, Token: 4, Holder: "z"}),
	}},
	{"P14", "entry 3 refuses a to y as held, and nobody holds it", []step{
		forge(3, lease.Acquire{Name: "a", Holder: "y"}, lease.Event{Kind: lease.KindRefused, Cause: lease.ErrHeld, Holder: "y"}),
	}},
	{"P14", "entry 3 says that token 2 of a is over, and it is live", []step{
		granted(2, "x"),
		forge(3, lease.Renew{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindRefused, Cause: lease.ErrLost, Token: 2, Holder: "x"}),
	}},
	{"P14", "entry 3 says that token 2 of a is not that of x", []step{
		granted(2, "x"),
		forge(3, lease.Renew{Name: "a", Holder: "x", Token: 2}, lease.Event{Kind: lease.KindRefused, Cause: lease.ErrNotHolder, Token: 2, Holder: "x"}),
	}},
	{"P14", "as cooling, and no lock delay runs", []step{
		granted(2, "x"),
		forge(3, lease.Acquire{Name: "a", Holder: "y"}, lease.Event{Kind: lease.KindRefused, Cause: lease.ErrCooling, Holder: "y"}),
	}},
	{"P11", "entry 3 refuses a to request r of x, which holds it under token 2", []step{
		forge(2, lease.Acquire{Name: "a", Holder: "x", RequestID: "r"}, lease.Event{Kind: lease.KindGranted, Token: 2, Holder: "x", RequestID: "r"}),
		forge(3, lease.Acquire{Name: "a", Holder: "x", RequestID: "r"}, lease.Event{Kind: lease.KindRefused, Cause: lease.ErrHeld, Holder: "x"}),
	}},
	{"P6", "entry 6 refuses token 4 for r, where the highest is 4", []step{
		forge(5, lease.Write{Register: "r", Token: 4}, lease.Event{Kind: lease.KindWritten, Token: 4, Register: true}),
		forge(6, lease.Write{Register: "r", Token: 4}, lease.Event{Kind: lease.KindRefused, Cause: lease.ErrStaleToken, Token: 4, Register: true}),
	}},
}

func forge(index uint64, c lease.Command, events ...lease.Event) step {
	for i := range events {
		events[i].Index = index
		if events[i].Name = "a"; events[i].Register {
			events[i].Name = "r"
		}
	}
	s := step{entry: history.Entry{Index: index, Term: 1, Command: c}}
	s.result.Events = events
	if _, write := c.(lease.Write); !write {
		s.result.Name = "a"
	}
	return s
}

func granted(index uint64, holder string) step {
	return forge(index, lease.Acquire{Name: "a", Holder: holder}, lease.Event{Kind: lease.KindGranted, Token: index, Holder: holder})
}

func queued(index uint64, holder string) step {
	return forge(index, lease.Acquire{Name: "a", Holder: holder, Wait: time.Second}, lease.Event{Kind: lease.KindQueued, Place: index, Holder: holder})
}

// handedOn is the release of a token that grants to the waiter at a place.
func handedOn(index, token uint64, to string, place uint64) step {
	return forge(index, lease.Release{Name: "a", Holder: "x", Token: token},
		lease.Event{Kind: lease.KindReleased, Token: token, Holder: "x"},
		lease.Event{Kind: lease.KindGranted, Token: index, Place: place, Holder: to})
}

// The rules find what a table with a rule missing would do, which its own replay
// would do as well and so could not find.
func TestRules_ForgedResults_AreFound(t *testing.T) {
	for _, f := range forged {
		t.Run(f.rule+" "+f.says, func(t *testing.T) {
			for id, found := range applyRules(&replay{steps: f.steps[:len(f.steps)-1]}) {
				if found.found > 0 {
					t.Errorf("%s is broken before the last step: %s", id, found.violations[0].What)
				}
			}
			for id, found := range applyRules(&replay{steps: f.steps}) {
				switch {
				case id != f.rule && found.found > 0 && f.rule != "P12":
					t.Errorf("%s is broken too: %s", id, found.violations[0].What)
				case id == f.rule && found.found == 0:
					t.Errorf("%s is not broken", id)
				case id == f.rule && !strings.Contains(found.violations[0].What, f.says):
					t.Errorf("it says %q, want %q in it", found.violations[0].What, f.says)
				}
			}
		})
	}
}
