package lease_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/lease"
)

// TestCheckReason ensures that a reason is 1 to 255 bytes that a person can read.
func TestCheckReason(t *testing.T) {
	runChecks(t, "reason", "1 to 255 bytes", lease.CheckReason, []check{
		{"one byte", "x", true},
		{"a sentence", "The host is being moved, see the calendar.", true},
		{"255 bytes", strings.Repeat("r", 255), true},
		{"beyond ASCII", "Ren\u00e9 hat's gesagt", true},

		{"empty", "", false},
		{"256 bytes", strings.Repeat("r", 256), false},
		{"256 bytes, 86 runes", strings.Repeat("\u20ac", 85) + "r", false},
		{"newline", "a\nb", false},
		{"escape", "\x1b[31m", false},
		{"right-to-left override", "a\u202eb", false},
		{"not UTF-8", "a\xff", false},
	})
}

// checkField ensures that an error is about that field, or nil if the field is
// empty.
func checkField(t *testing.T, what, field string, err error) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Errorf("%s: is refused: %v", what, err)
		}
		return
	}
	var fe *lease.FieldError
	if !errors.As(err, &fe) || fe.Field != field || fe.Detail == "" {
		t.Errorf("%s: got %v, want a FieldError about %s", what, err, field)
	}
}

// TestAcquire_Check ensures that each field of an acquire is held to its bounds,
// and that a refusal names it as clients write it.
func TestAcquire_Check(t *testing.T) {
	for _, tc := range []struct {
		what   string
		change func(*lease.Acquire)
		field  string // that is refused, empty if none is
	}{
		{"plain", func(*lease.Acquire) {}, ""},
		{"longest wait", func(c *lease.Acquire) { c.Wait = 10 * time.Minute }, ""},
		{"shortest wait", func(c *lease.Acquire) { c.Wait = time.Millisecond }, ""},
		{"longest lock delay", func(c *lease.Acquire) { c.LockDelay = time.Minute }, ""},
		{"name", func(c *lease.Acquire) { c.Name = "a//b" }, "name"},
		{"holder", func(c *lease.Acquire) { c.Holder = "" }, "holder"},
		{"request id", func(c *lease.Acquire) { c.RequestID = "a/b" }, "request_id"},
		{"value", func(c *lease.Acquire) { c.Value = "\xff" }, "value"},
		{"wait too long", func(c *lease.Acquire) { c.Wait = 10*time.Minute + time.Millisecond }, "wait_ms"},
		{"negative wait", func(c *lease.Acquire) { c.Wait = -time.Millisecond }, "wait_ms"},
		{"wait of a part of a millisecond", func(c *lease.Acquire) { c.Wait = time.Second + time.Microsecond }, "wait_ms"},
		{"lock delay too long", func(c *lease.Acquire) { c.LockDelay = time.Minute + time.Millisecond }, "lock_delay_ms"},
		{"negative lock delay", func(c *lease.Acquire) { c.LockDelay = -time.Second }, "lock_delay_ms"},
		{"lock delay of a part of a millisecond", func(c *lease.Acquire) { c.LockDelay = time.Microsecond }, "lock_delay_ms"},
	} {
		c := lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Second}
		tc.change(&c)
		checkField(t, tc.what, tc.field, c.Check())
	}
}

// TestRevoke_Check ensures that a revoke has the name of a lease and a reason.
func TestRevoke_Check(t *testing.T) {
	for _, tc := range []struct {
		what    string
		command lease.Revoke
		field   string
	}{
		{"plain", lease.Revoke{Name: "a", Token: 3, Reason: "it hangs"}, ""},
		{"no name", lease.Revoke{Token: 3, Reason: "it hangs"}, "name"},
		{"no reason", lease.Revoke{Name: "a", Token: 3}, "reason"},
	} {
		checkField(t, tc.what, tc.field, tc.command.Check())
	}
}

// TestWrite_Check ensures that a write is held to the bounds of names and values,
// and that one that names a lease has a token.
func TestWrite_Check(t *testing.T) {
	long := strings.Repeat("v", lease.MaxValueLen+1)
	for _, tc := range []struct {
		what    string
		command lease.Write
		field   string
	}{
		{"plain", lease.Write{Register: "x", Value: "v"}, ""},
		{"empty value", lease.Write{Register: "x"}, ""},
		{"fenced", lease.Write{Register: "x", Token: 3}, ""},
		{"guarded", lease.Write{Register: "x", Token: 3, Lease: "a"}, ""},
		{"no register", lease.Write{Value: "v"}, "name"},
		{"guarded, no register", lease.Write{Token: 3, Lease: "a"}, "name"},
		{"value too long", lease.Write{Register: "x", Value: long}, "value"},
		{"guarded, value too long", lease.Write{Register: "x", Value: long, Token: 3, Lease: "a"}, "value"},
		{"guarded without a token", lease.Write{Register: "x", Lease: "a"}, "token"},
		{"name of the lease", lease.Write{Register: "x", Token: 3, Lease: "a/../b"}, "lease"},
	} {
		checkField(t, tc.what, tc.field, tc.command.Check())
	}
}
