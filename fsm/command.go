package fsm

import (
	"fmt"
	"time"

	"leasehold/lease"
)

// A log entry carries
//
//	┌─────────┬──────┬─────────────────────────────────────┐
//	│ version │ kind │ the fields of the command, in order │
//	│ 1 byte  │ 1 b  │ uvarints, and strings as length+bytes│
//	└─────────┴──────┴─────────────────────────────────────┘
//
// Kinds are never renumbered and fields never reordered; a new field means a new
// kind or a new version. Version 1, which was never released, had no queues.
const commandVersion = 2

type kind byte

const (
	kindLead kind = iota + 1
	kindAcquire
	kindRenew
	kindRelease
	kindExpire
	kindReopen
	kindAbandon
	kindRevoke
	kindWrite
	kindRenewMany
)

var kindNames = map[kind]string{
	kindLead: "lead", kindAcquire: "acquire", kindRenew: "renew",
	kindRelease: "release", kindExpire: "expire", kindReopen: "reopen",
	kindAbandon: "abandon", kindRevoke: "revoke", kindWrite: "write",
	kindRenewMany: "renew-many",
}

// UnknownCommandError: an entry holds a command that this version of leasehold
// does not know. The node must stop.
type UnknownCommandError struct {
	Version, Kind byte
}

func (e *UnknownCommandError) Error() string {
	return fmt.Sprintf("the log holds a command of kind %d in encoding version %d, which this version of leasehold does not know (it knows version %d); run a version that does on this node",
		e.Kind, e.Version, commandVersion)
}

// EncodeCommand turns a command into the data of a log entry. TTLs are stored
// in whole milliseconds.
func EncodeCommand(c lease.Command) []byte {
	w := &writer{buf: make([]byte, 0, 128)}
	head := func(k kind) { w.buf = append(w.buf, commandVersion, byte(k)) }
	switch c := c.(type) {
	case lease.Lead:
		head(kindLead)
		w.str(c.Node)
		w.str(c.Address)
		w.str(c.ClusterID)
	case lease.Acquire:
		head(kindAcquire)
		w.str(c.Name)
		w.str(c.Holder)
		w.str(c.RequestID)
		w.num(millis(c.TTL))
		w.num(millis(c.Wait))
		w.num(millis(c.LockDelay))
		w.str(c.Value)
		w.flag(c.Reclaim)
	case lease.Renew:
		head(kindRenew)
		w.str(c.Name)
		w.str(c.Holder)
		w.num(c.Token)
		w.num(millis(c.TTL))
		w.flag(c.Value != nil)
		if c.Value != nil {
			w.str(*c.Value)
		}
	case lease.RenewMany:
		head(kindRenewMany)
		w.str(c.Holder)
		w.num(uint64(len(c.Renewals)))
		for _, one := range c.Renewals {
			w.str(one.Name)
			w.num(one.Token)
		}
	case lease.Release:
		head(kindRelease)
		w.str(c.Name)
		w.str(c.Holder)
		w.num(c.Token)
	case lease.Expire:
		head(kindExpire)
		w.str(c.Name)
		w.num(c.Token)
		w.num(c.Renewal)
		w.num(c.Term)
	case lease.Reopen:
		head(kindReopen)
		w.str(c.Name)
		w.num(c.Token)
	case lease.Abandon:
		head(kindAbandon)
		w.str(c.Name)
		w.str(c.Holder)
		w.str(c.RequestID)
		w.num(c.Place)
		w.str(string(c.Reason))
	case lease.Revoke:
		head(kindRevoke)
		w.str(c.Name)
		w.num(c.Token)
		w.str(c.Reason)
	case lease.Write:
		head(kindWrite)
		w.str(c.Register)
		w.str(c.Value)
		w.num(c.Token)
		w.str(c.Lease)
	default:
		// The set of commands is closed; a new one is added here first.
		panic(fmt.Sprintf("no encoding for %T", c))
	}
	return w.buf
}

// DecodeCommand is the inverse of [EncodeCommand]. It fails with an
// *[UnknownCommandError] or because the bytes are malformed.
func DecodeCommand(data []byte) (lease.Command, error) {
	if len(data) < 2 {
		return nil, errMalformed
	}
	version, k := data[0], kind(data[1])
	if version != commandVersion {
		return nil, &UnknownCommandError{version, byte(k)}
	}
	r := &reader{buf: data[2:]}
	var c lease.Command
	switch k {
	case kindLead:
		c = lease.Lead{Node: r.str(), Address: r.str(), ClusterID: r.str()}
	case kindAcquire:
		c = lease.Acquire{
			Name: r.str(), Holder: r.str(), RequestID: r.str(),
			TTL: duration(r), Wait: duration(r), LockDelay: duration(r), Value: r.str(), Reclaim: r.flag(),
		}
	case kindRenew:
		renew := lease.Renew{Name: r.str(), Holder: r.str(), Token: r.num(), TTL: duration(r)}
		if r.flag() {
			value := r.str()
			renew.Value = &value
		}
		c = renew
	case kindRenewMany:
		many := lease.RenewMany{Holder: r.str()}
		for n := r.num(); n > 0 && !r.bad; n-- {
			many.Renewals = append(many.Renewals, lease.Renewal{Name: r.str(), Token: r.num()})
		}
		c = many
	case kindRelease:
		c = lease.Release{Name: r.str(), Holder: r.str(), Token: r.num()}
	case kindExpire:
		c = lease.Expire{Name: r.str(), Token: r.num(), Renewal: r.num(), Term: r.num()}
	case kindReopen:
		c = lease.Reopen{Name: r.str(), Token: r.num()}
	case kindAbandon:
		c = lease.Abandon{Name: r.str(), Holder: r.str(), RequestID: r.str(), Place: r.num(), Reason: lease.Reason(r.str())}
	case kindRevoke:
		c = lease.Revoke{Name: r.str(), Token: r.num(), Reason: r.str()}
	case kindWrite:
		c = lease.Write{Register: r.str(), Value: r.str(), Token: r.num(), Lease: r.str()}
	default:
		return nil, &UnknownCommandError{version, byte(k)}
	}
	return c, r.done()
}

// KindName names the kind of an entry's command, for people: "acquire", …
func KindName(data []byte) string {
	if len(data) < 2 || data[0] != commandVersion || kindNames[kind(data[1])] == "" {
		return "unknown"
	}
	return kindNames[kind(data[1])]
}

func millis(d time.Duration) uint64 { return uint64(d.Milliseconds()) }

func duration(r *reader) time.Duration {
	ms := r.num()
	if ms > uint64(maxDuration/time.Millisecond) {
		r.bad = true
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

const maxDuration = time.Duration(1<<63 - 1)
