package lease_test

import (
	"errors"
	"testing"

	"leasehold/lease"
)

// TestEvent_Why ensures that every kind of event and every refusal says why it
// happened, in a sentence that a student can read.
func TestEvent_Why(t *testing.T) {
	refused := func(cause error, token, other uint64) lease.Event {
		return lease.Event{Index: 9, Term: 2, Kind: lease.KindRefused, Name: "a", Holder: "alice", Token: token, Cause: cause, Other: other}
	}
	event := func(kind lease.Kind, other uint64) lease.Event {
		return lease.Event{Index: 9, Term: 2, Kind: kind, Name: "a", Holder: "alice", Token: 3, Other: other}
	}
	for _, tc := range []struct {
		event lease.Event
		want  string
	}{
		{lease.Event{Index: 9, Term: 2, Kind: lease.KindLeader, Name: "n2"}, "n2 won term 2; every lease has its full TTL again"},
		{event(lease.KindGranted, 0), "the lease was free at index 9"},
		{event(lease.KindGranted, 2), "its holder reclaimed it: token 2 ended in this same entry"},
		{event(lease.KindRenewed, 0), "token 3 was live and alice holds it"},
		{event(lease.KindReleased, 0), "alice gave token 3 back"},
		{event(lease.KindExpired, 7), "no renewal of token 3 for its whole TTL since index 7"},
		{event(lease.KindReclaimed, 0), "alice asked anew and gave up its older token 3"},

		{refused(lease.ErrHeld, 0, 5), "token 5 is live"},
		{refused(lease.ErrNotHolder, 5, 0), "token 5 is live but alice does not hold it"},
		{refused(lease.ErrLost, 3, 8), "the grant of token 3 ended at index 8"},
		{refused(lease.ErrLost, 3, 0), "token 3 is no live grant of this lease, nor among the last 1024 that ended"},
		{refused(lease.ErrRequestEnded, 3, 8), "the grant that this request made ended at index 8"},
		{refused(lease.ErrRenewed, 3, 8), "token 3 was renewed at index 8"},
		{refused(lease.ErrOldTerm, 3, 8), "token 3 has its full TTL again since index 8, where another leader took over"},
	} {
		if got := tc.event.Why(); got != tc.want {
			t.Errorf("%s (%v):\n got %s\nwant %s", tc.event.Kind, tc.event.Cause, got, tc.want)
		}
	}
}

// TestEvent_Why_IsInventedForNothing ensures that an unknown kind or cause gets
// no reason rather than a wrong one.
func TestEvent_Why_IsInventedForNothing(t *testing.T) {
	for _, e := range []lease.Event{{Kind: "unheard of"}, {Kind: lease.KindRefused, Cause: errors.New("other")}} {
		if got := e.Why(); got != "" {
			t.Errorf("%+v: got %q", e, got)
		}
	}
}
