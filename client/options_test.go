package client

import (
	"context"
	"testing"
	"time"

	"leasehold/lease"
)

// Times that a request cannot carry are refused by name, and nothing is asked. Above
// all a wait that has just run out is not one for ever.
func TestClient_Acquire_RefusesTimes(t *testing.T) {
	c, err := New(Config{Servers: []string{dead(t)}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, tt := range []struct {
		field   string
		options AcquireOptions
	}{
		{"Wait", AcquireOptions{Wait: -time.Second}},
		{"Wait", AcquireOptions{Wait: -2}},
		{"Wait", AcquireOptions{Wait: 1_999_999_679}},
		{"TTL", AcquireOptions{TTL: -time.Second}},
		{"TTL", AcquireOptions{TTL: time.Second + 1}},
		{"LockDelay", AcquireOptions{LockDelay: -1}},
		{"LockDelay", AcquireOptions{LockDelay: 1}},
	} {
		_, err := c.Acquire(t.Context(), "a", tt.options)
		if refused, ok := err.(*lease.FieldError); !ok || refused.Field != tt.field {
			t.Errorf("%+v: %v, want a refusal of %s", tt.options, err, tt.field)
		}
		err = c.Elect(t.Context(), "a", ElectOptions{AcquireOptions: tt.options}, func(context.Context, *Lease) error { return nil })
		if refused, ok := err.(*lease.FieldError); !ok || refused.Field != tt.field {
			t.Errorf("elect with %+v: %v, want a refusal of %s", tt.options, err, tt.field)
		}
	}
	if err := c.Elect(t.Context(), "a", ElectOptions{}, nil); err == nil {
		t.Error("nobody to lead, and no error")
	}
}
