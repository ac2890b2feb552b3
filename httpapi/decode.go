package httpapi

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"leasehold/lease"
)

// bounds of a whole number.
type bounds struct {
	what     string // "a whole number of …"
	min, max uint64
}

// anyToken: 0 is no index that a grant could have.
var anyToken = bounds{"a whole number", 1, math.MaxUint64}

// ttlBounds are the whole milliseconds from shortest to longest. ttl_ms is
// compared as a number of milliseconds, before it becomes a Duration: int64
// holds more milliseconds than a Duration does.
func ttlBounds(shortest, longest time.Duration) bounds {
	return bounds{"a whole number of milliseconds", uint64(ceilMillis(shortest)), uint64(longest.Milliseconds())}
}

var (
	waitBounds      = bounds{"a whole number of milliseconds", 0, uint64(lease.MaxWait.Milliseconds())}
	lockDelayBounds = bounds{"a whole number of milliseconds", 0, uint64(lease.MaxLockDelay.Milliseconds())}
)

func (b bounds) String() string { return fmt.Sprintf("%s from %d to %d", b.what, b.min, b.max) }

// parse takes nothing but the digits of a number within the bounds, and no
// leading zero, which JSON does not have and some languages take for octal.
func (b bounds) parse(text string) (uint64, bool) {
	if len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 64) // takes no sign
	return n, err == nil && b.min <= n && n <= b.max
}

// refuse names the field, the bounds and what stood there instead.
func (b bounds) refuse(field, got string) error {
	return &lease.FieldError{Field: field, Detail: fmt.Sprintf("must be %v, not %s", b, got)}
}

var (
	acquireFields = fields{[]string{"name", "holder", "ttl_ms", "wait_ms", "request_id", "value", "lock_delay_ms", "reclaim"}, 3}
	renewFields   = fields{[]string{"name", "holder", "token", "ttl_ms", "value"}, 3}
	releaseFields = fields{[]string{"name", "holder", "token"}, 3}
)

// decodeAcquire reads the body of an acquire. RequestID is empty if it has none.
func decodeAcquire(body []byte, ttl bounds) (lease.Acquire, error) {
	var a lease.Acquire
	err := readObject(body, acquireFields, func(o *object, name string) (err error) {
		switch name {
		case "name":
			a.Name, err = checked(o, lease.CheckName)
		case "holder":
			a.Holder, err = checked(o, lease.CheckHolder)
		case "ttl_ms":
			a.TTL, err = millis(o, ttl)
		case "wait_ms":
			a.Wait, err = millis(o, waitBounds)
		case "lock_delay_ms":
			a.LockDelay, err = millis(o, lockDelayBounds)
		case "request_id":
			a.RequestID, err = checked(o, lease.CheckRequestID)
		case "value":
			a.Value, err = checked(o, lease.CheckValue)
		case "reclaim":
			a.Reclaim, err = o.boolean()
		}
		return err
	})
	return a, err
}

// decodeRenew reads the body of a renew. TTL is 0 and Value nil if it has none;
// a ttl_ms of 0 is out of bounds.
func decodeRenew(body []byte, ttl bounds) (lease.Renew, error) {
	var r lease.Renew
	err := readObject(body, renewFields, func(o *object, name string) (err error) {
		switch name {
		case "name":
			r.Name, err = checked(o, lease.CheckName)
		case "holder":
			r.Holder, err = checked(o, lease.CheckHolder)
		case "token":
			r.Token, err = o.integer(anyToken)
		case "ttl_ms":
			r.TTL, err = millis(o, ttl)
		case "value":
			var value string
			value, err = checked(o, lease.CheckValue)
			r.Value = &value
		}
		return err
	})
	return r, err
}

// decodeRelease reads the body of a release.
func decodeRelease(body []byte) (lease.Release, error) {
	var r lease.Release
	err := readObject(body, releaseFields, func(o *object, name string) (err error) {
		switch name {
		case "name":
			r.Name, err = checked(o, lease.CheckName)
		case "holder":
			r.Holder, err = checked(o, lease.CheckHolder)
		case "token":
			r.Token, err = o.integer(anyToken)
		}
		return err
	})
	return r, err
}

// checked reads a string and asks package lease about it.
func checked(o *object, check func(string) error) (string, error) {
	text, err := o.string()
	if err != nil {
		return "", err
	}
	return text, check(text)
}

// inField is a failed check of a value that stands in a field of another name.
func inField(field string, err error) error {
	if bad, ok := errors.AsType[*lease.FieldError](err); ok {
		return &lease.FieldError{Field: field, Detail: bad.Detail}
	}
	return err
}

// millis reads a duration.
func millis(o *object, within bounds) (time.Duration, error) {
	n, err := o.integer(within)
	return time.Duration(n) * time.Millisecond, err
}
