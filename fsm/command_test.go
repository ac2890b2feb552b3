package fsm_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"leasehold/fsm"
	"leasehold/lease"
)

// millis draws a duration that the encoding can hold: whole milliseconds.
var millis = rapid.Custom(func(t *rapid.T) time.Duration {
	return time.Duration(rapid.Int64Range(0, math.MaxInt64/int64(time.Millisecond)).Draw(t, "ms")) * time.Millisecond
})

// anyCommand draws every kind of command with any fields.
var anyCommand = rapid.Custom(func(t *rapid.T) lease.Command {
	text := func(label string) string { return rapid.String().Draw(t, label) }
	number := func(label string) uint64 { return rapid.Uint64().Draw(t, label) }
	switch rapid.IntRange(1, 10).Draw(t, "kind") {
	case 1:
		return lease.Lead{Node: text("node"), Address: text("address"), ClusterID: text("cluster")}
	case 2:
		return lease.Acquire{
			Name: text("name"), Holder: text("holder"), RequestID: text("request"),
			TTL: millis.Draw(t, "ttl"), Wait: millis.Draw(t, "wait"), LockDelay: millis.Draw(t, "lock delay"),
			Value: text("value"), Reclaim: rapid.Bool().Draw(t, "reclaim"),
		}
	case 3:
		renew := lease.Renew{Name: text("name"), Holder: text("holder"), Token: number("token"), TTL: millis.Draw(t, "ttl")}
		if rapid.Bool().Draw(t, "has value") {
			value := text("value")
			renew.Value = &value
		}
		return renew
	case 4:
		return lease.Release{Name: text("name"), Holder: text("holder"), Token: number("token")}
	case 5:
		return lease.Expire{Name: text("name"), Token: number("token"), Renewal: number("renewal"), Term: number("term")}
	case 6:
		return lease.Reopen{Name: text("name"), Token: number("token")}
	case 7:
		return lease.Abandon{
			Name: text("name"), Holder: text("holder"), RequestID: text("request"),
			Place: number("place"), Reason: lease.Reason(text("reason")),
		}
	case 10:
		many := lease.RenewMany{Holder: text("holder")}
		for range rapid.IntRange(0, 5).Draw(t, "renewals") {
			many.Renewals = append(many.Renewals, lease.Renewal{Name: text("name"), Token: number("token")})
		}
		return many
	case 8:
		return lease.Revoke{Name: text("name"), Token: number("token"), Reason: text("reason")}
	default:
		return lease.Write{Register: text("register"), Value: text("value"), Token: number("token"), Lease: text("lease")}
	}
})

// Every command comes back from its encoding as it was.
func TestEncodeCommand_RoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyCommand.Draw(t, "command")
		got, err := fsm.DecodeCommand(fsm.EncodeCommand(want))
		if err != nil {
			t.Fatalf("%#v: %v", want, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got %#v, want %#v", got, want)
		}
	})
}

// golden are encodings as they stand in the logs of users. A line here may be
// added, and never changed: a node must read what an older version wrote.
var golden = []struct {
	kind    string
	bytes   string
	command lease.Command
}{
	{"lead", "0201" + "026e31" + "066e313a383030" + "026331", lease.Lead{Node: "n1", Address: "n1:800", ClusterID: "c1"}},
	{
		"acquire", "0202" + "0161" + "0568c3b66c64" + "027231" + "8827" + "904e" + "b817" + "0176" + "00",
		lease.Acquire{Name: "a", Holder: "höld", RequestID: "r1", TTL: 5 * time.Second, Wait: 10 * time.Second, LockDelay: 3 * time.Second, Value: "v"},
	},
	{"acquire", "0202" + "0161" + "0168" + "0172" + "01" + "00" + "00" + "00" + "01", lease.Acquire{Name: "a", Holder: "h", RequestID: "r", TTL: time.Millisecond, Reclaim: true}},
	{"renew", "0203" + "0161" + "0168" + "ac02" + "00" + "00", lease.Renew{Name: "a", Holder: "h", Token: 300}},
	{"renew", "0203" + "0161" + "0168" + "ac02" + "e807" + "01" + "00", lease.Renew{Name: "a", Holder: "h", Token: 300, TTL: time.Second, Value: new(string)}},
	{"release", "0204" + "0161" + "0168" + "ffffffffffffffffff01", lease.Release{Name: "a", Holder: "h", Token: math.MaxUint64}},
	{"expire", "0205" + "0161" + "03" + "8001" + "02", lease.Expire{Name: "a", Token: 3, Renewal: 128, Term: 2}},
	{"reopen", "0206" + "0161" + "03", lease.Reopen{Name: "a", Token: 3}},
	{"abandon", "0207" + "0161" + "0168" + "0172" + "8002" + "0378797a", lease.Abandon{Name: "a", Holder: "h", RequestID: "r", Place: 256, Reason: "xyz"}},
	{"revoke", "0208" + "0161" + "03" + "0378797a", lease.Revoke{Name: "a", Token: 3, Reason: "xyz"}},
	{"write", "0209" + "0178" + "0176" + "00" + "00", lease.Write{Register: "x", Value: "v"}},
	{"write", "0209" + "0178" + "00" + "ac02" + "0161", lease.Write{Register: "x", Token: 300, Lease: "a"}},
}

// The encoding of each kind is the one that logs on disk already have.
func TestEncodeCommand_Golden(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range golden {
		seen[g.kind] = true
		want, err := hex.DecodeString(g.bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := fsm.EncodeCommand(g.command); !bytes.Equal(got, want) {
			t.Errorf("%#v is encoded as\n%x, want\n%x", g.command, got, want)
		}
		got, err := fsm.DecodeCommand(want)
		if err != nil || !reflect.DeepEqual(got, g.command) {
			t.Errorf("%x is decoded as %#v, %v, want %#v", want, got, err, g.command)
		}
		if name := fsm.KindName(want); name != g.kind {
			t.Errorf("%x is called %q, want %q", want, name, g.kind)
		}
	}
	if len(seen) != 9 {
		t.Errorf("%d kinds have a golden encoding, want all 9", len(seen))
	}
}

// An encoding that was cut short, or goes on, is an error at every length.
func TestDecodeCommand_CutOrExtended(t *testing.T) {
	for _, g := range golden {
		whole, _ := hex.DecodeString(g.bytes)
		for size := range whole {
			if c, err := fsm.DecodeCommand(whole[:size]); err == nil {
				t.Errorf("the first %d bytes of %x are taken for %#v", size, whole, c)
			}
		}
		for _, more := range []byte{0, 1, 0xff} {
			if c, err := fsm.DecodeCommand(append(bytes.Clone(whole), more)); err == nil {
				t.Errorf("%x followed by %02x is taken for %#v", whole, more, c)
			}
		}
	}
}

// Fields that no version writes are errors: lengths beyond the end, numbers that
// overflow, flags that are neither 0 nor 1, TTLs beyond time.Duration.
func TestDecodeCommand_Malformed(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":                              "",
		"a version alone":                      "02",
		"a length beyond the end":              "0204" + "7f61",
		"a length near 2^64":                   "0204" + "ffffffffffffffffff01" + "61",
		"a number of more than 64 bits":        "0204" + "0161" + "0168" + "ffffffffffffffffff02",
		"a number that does not end":           "0204" + "0161" + "0168" + "ffff",
		"a flag of 2":                          "0202" + "0161" + "0168" + "0172" + "01" + "00" + "00" + "00" + "02",
		"a TTL of more than 292 years":         "0202" + "0161" + "0168" + "0172" + "ffffffffffffffffff01" + "00" + "00" + "00" + "00",
		"a wait of more than 292 years":        "0202" + "0161" + "0168" + "0172" + "01" + "ffffffffffffffffff01" + "00" + "00" + "00",
		"a lock delay of more than 292 years":  "0202" + "0161" + "0168" + "0172" + "01" + "00" + "ffffffffffffffffff01" + "00" + "00",
		"a value that its flag excludes":       "0203" + "0161" + "0168" + "01" + "00" + "00" + "0176",
		"an abandon without a reason":          "0207" + "0161" + "0168" + "0172" + "05",
		"a revoke with something after reason": "0208" + "0161" + "03" + "0178" + "00",
		"a write without its lease":            "0209" + "0178" + "0176" + "00",
	} {
		data, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		if c, err := fsm.DecodeCommand(data); err == nil {
			t.Errorf("%s: %x is taken for %#v", what, data, c)
		}
	}
}

// A kind or a version that this one does not know, of the future or the past, is
// told apart from damage, and named.
func TestDecodeCommand_Unknown(t *testing.T) {
	whole := fsm.EncodeCommand(lease.Release{Name: "a", Holder: "h", Token: 1})
	for _, head := range [][2]byte{{2, 0}, {2, 11}, {2, 255}, {0, 1}, {1, 1}, {1, 4}, {3, 1}, {255, 255}} {
		data := bytes.Clone(whole)
		data[0], data[1] = head[0], head[1]
		_, err := fsm.DecodeCommand(data)
		var unknown *fsm.UnknownCommandError
		if !errors.As(err, &unknown) || *unknown != (fsm.UnknownCommandError{Version: head[0], Kind: head[1]}) {
			t.Errorf("version %d, kind %d: got %v, want an UnknownCommandError that names them", head[0], head[1], err)
		}
		if name := fsm.KindName(data); name != "unknown" {
			t.Errorf("version %d, kind %d is called %q", head[0], head[1], name)
		}
	}
}

// Whatever bytes an entry holds, decoding neither panics nor takes them for a
// command that would be written in another way and read as a third.
func FuzzDecodeCommand(f *testing.F) {
	for _, g := range golden {
		data, _ := hex.DecodeString(g.bytes)
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := fsm.DecodeCommand(data)
		fsm.KindName(data)
		if err != nil {
			return
		}
		again, err := fsm.DecodeCommand(fsm.EncodeCommand(c))
		if err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%x is %#v, which comes back as %#v, %v", data, c, again, err)
		}
	})
}
