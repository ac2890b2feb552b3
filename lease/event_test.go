package lease_test

import (
	"errors"
	"slices"
	"testing"
	"time"

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
	with := func(e lease.Event, change func(*lease.Event)) lease.Event { change(&e); return e }
	placed := func(e lease.Event) lease.Event { return with(e, func(e *lease.Event) { e.Place = 6 }) }
	seen := map[lease.Kind]bool{}
	for _, tc := range []struct {
		event lease.Event
		want  string
	}{
		{lease.Event{Index: 9, Term: 2, Kind: lease.KindLeader, Name: "n2"}, "n2 won term 2; every lease has its full TTL again"},
		{event(lease.KindGranted, 0), "the lease was free at index 9"},
		{event(lease.KindGranted, 2), "its holder reclaimed it: token 2 ended in this same entry"},
		{placed(event(lease.KindGranted, 2)), "first in the queue since index 6: token 2 ended in this same entry"},
		{placed(event(lease.KindGranted, 0)), "first in the queue since index 6: the lock delay ended in this same entry"},
		{event(lease.KindRenewed, 0), "token 3 was live and alice holds it"},
		{event(lease.KindReleased, 0), "alice gave token 3 back"},
		{event(lease.KindExpired, 7), "no renewal of token 3 for its whole TTL since index 7"},
		{event(lease.KindReclaimed, 0), "alice asked anew and gave up its older token 3"},
		{with(event(lease.KindRevoked, 0), func(e *lease.Event) { e.Reason = "it hangs" }), "an operator took token 3 away from alice: it hangs"},
		{placed(event(lease.KindQueued, 5)), "token 5 is live; it waits for its turn"},
		{placed(event(lease.KindQueued, 0)), "the lease is cooling; it waits for its turn"},
		{with(placed(event(lease.KindAbandoned, 0)), func(e *lease.Event) { e.Reason = string(lease.WaitOver) }), "alice gave up the place of index 6: its wait was over"},
		{with(placed(event(lease.KindAbandoned, 0)), func(e *lease.Event) { e.Reason = string(lease.ClientGone) }), "alice gave up the place of index 6: its client closed the connection"},
		{with(placed(event(lease.KindAbandoned, 0)), func(e *lease.Event) { e.Reason = string(lease.NotBack) }), "alice gave up the place of index 6: its client did not come back after a change of leader"},
		{with(event(lease.KindCooling, 0), func(e *lease.Event) { e.Delay = 1500 * time.Millisecond }), "the grant of token 3 asked that nobody be granted for 1.5s after it"},
		{event(lease.KindReopened, 8), "the lock delay that began at index 8 is over"},
		{event(lease.KindWritten, 0), "token 3 is no lower than any seen before"},
		{lease.Event{Kind: lease.KindWritten, Name: "r", Register: true}, "it came without a token, so nothing was checked"},

		{refused(lease.ErrHeld, 0, 5), "token 5 is live"},
		{refused(lease.ErrNotHolder, 5, 0), "token 5 is live but alice does not hold it"},
		{refused(lease.ErrLost, 3, 8), "the grant of token 3 ended at index 8"},
		{refused(lease.ErrLost, 3, 0), "token 3 is no live grant of this lease, nor among the last 1024 that ended"},
		{refused(lease.ErrRequestEnded, 3, 8), "the grant that this request made ended at index 8"},
		{refused(lease.ErrRenewed, 3, 8), "token 3 was renewed at index 8"},
		{refused(lease.ErrOldTerm, 3, 8), "token 3 has its full TTL again since index 8, where another leader took over"},
		{refused(lease.ErrCooling, 0, 8), "the lock delay that began at index 8 still runs"},
		{refused(lease.ErrNotCooling, 3, 0), "no lock delay of token 3 runs"},
		{refused(lease.ErrNotQueued, 0, 8), "the request was granted at index 8"},
		{refused(lease.ErrNotQueued, 0, 0), "the request is not in the queue"},
		{refused(lease.ErrStaleToken, 3, 8), "token 3 came after token 8 had been seen"},
		{refused(lease.ErrNotLive, 3, 8), "the grant of token 3 ended at index 8"},
		{refused(lease.ErrNotLive, 3, 0), "token 3 is no live grant of the lease, nor among the last 1024 that ended"},
	} {
		seen[tc.event.Kind] = true
		if got := tc.event.Why(); got != tc.want {
			t.Errorf("%s (%v):\n got %s\nwant %s", tc.event.Kind, tc.event.Cause, got, tc.want)
		}
	}
	if len(seen) != 13 {
		t.Errorf("%d kinds of events were asked for their reason, want all 13", len(seen))
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

// TestTable_Events_NameWhatTheyAreAbout ensures that the events of a hand-over, of
// a lock delay and of a queue carry what a reader needs to follow one client:
// holder, request, token and place.
func TestTable_Events_NameWhatTheyAreAbout(t *testing.T) {
	l := newLog(t)
	alice := l.apply(lease.Acquire{Name: "a", Holder: "alice", RequestID: "a1", TTL: time.Second, LockDelay: 3 * time.Second}).Entry.Index
	queued := l.apply(lease.Acquire{Name: "a", Holder: "bob", RequestID: "b1", TTL: time.Second, Wait: time.Second})
	place := queued.Entry.Index
	expired := l.apply(lease.Expire{Name: "a", Token: alice, Renewal: alice, Term: 1})
	reopened := l.apply(lease.Reopen{Name: "a", Token: alice})
	carol := l.apply(lease.Acquire{Name: "a", Holder: "carol", RequestID: "c1", TTL: time.Second, Wait: time.Second}).Entry.Index
	abandoned := l.apply(lease.Abandon{Name: "a", Holder: "carol", RequestID: "c1", Place: carol, Reason: lease.ClientGone})
	revoked := l.apply(lease.Revoke{Name: "a", Token: reopened.Entry.Index, Reason: "moved"})
	written := l.apply(lease.Write{Register: "r", Value: "v", Token: 7, Lease: ""})
	stale := l.apply(lease.Write{Register: "r", Value: "w", Token: 6})

	at := func(r lease.Result, e lease.Event) lease.Event {
		e.Index, e.Term, e.At = r.Entry.Index, r.Entry.Term, r.Entry.At
		return e
	}
	end := expired.Entry.Index
	for _, tc := range []struct {
		result lease.Result
		want   []lease.Event
	}{
		{queued, []lease.Event{{Kind: lease.KindQueued, Name: "a", Holder: "bob", RequestID: "b1", Place: place, Other: alice}}},
		{expired, []lease.Event{
			{Kind: lease.KindExpired, Name: "a", Holder: "alice", RequestID: "a1", Token: alice, Other: alice},
			{Kind: lease.KindCooling, Name: "a", Token: alice, Delay: 3 * time.Second},
		}},
		{reopened, []lease.Event{
			{Kind: lease.KindReopened, Name: "a", Token: alice, Other: end},
			{Kind: lease.KindGranted, Name: "a", Holder: "bob", RequestID: "b1", Token: reopened.Entry.Index, Place: place},
		}},
		{abandoned, []lease.Event{{Kind: lease.KindAbandoned, Name: "a", Holder: "carol", RequestID: "c1", Place: carol, Reason: string(lease.ClientGone)}}},
		{revoked, []lease.Event{{Kind: lease.KindRevoked, Name: "a", Holder: "bob", RequestID: "b1", Token: reopened.Entry.Index, Reason: "moved"}}},
		{written, []lease.Event{{Kind: lease.KindWritten, Name: "r", Register: true, Token: 7}}},
		{stale, []lease.Event{{Kind: lease.KindRefused, Name: "r", Register: true, Token: 6, Cause: lease.ErrStaleToken, Other: 7}}},
	} {
		for i := range tc.want {
			tc.want[i] = at(tc.result, tc.want[i])
		}
		if !slices.Equal(tc.result.Events, tc.want) {
			t.Errorf("index %d:\n got %+v\nwant %+v", tc.result.Entry.Index, tc.result.Events, tc.want)
		}
	}
}
