package cluster_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/cluster"
	"leasehold/cluster/clustertest"
	"leasehold/lease"
)

// What would make a log entry or a snapshot that no node can take is refused
// before it is proposed, whoever calls.
func TestNode_RefusesWhatMustNotGetIntoTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clustertest.New(t, 1, clustertest.Options{})
		n := c.Leader()
		long := strings.Repeat("v", lease.MaxValueLen+1)
		last := n.Status().LastIndex
		for field, bad := range map[string]lease.Acquire{
			"name":       acquire("", "h", "1", time.Second),
			"holder":     acquire("a", "", "1", time.Second),
			"request_id": acquire("a", "h", "", time.Second),
			"ttl_ms":     acquire("a", "h", "1", time.Millisecond),
			"value":      {Name: "a", Holder: "h", RequestID: "1", TTL: time.Second, Value: long},
		} {
			var wrong *lease.FieldError
			if _, err := n.Acquire(ctx, bad); !errors.As(err, &wrong) || wrong.Field != field {
				t.Errorf("%s: got %v, want a FieldError", field, err)
			}
		}
		var wrong *lease.FieldError
		if _, err := n.Renew(ctx, lease.Renew{Name: "a", Holder: "h", Token: 1, Value: &long}); !errors.As(err, &wrong) {
			t.Errorf("renew with a long value: %v", err)
		}
		if _, _, err := n.Leases(ctx, cluster.LeaseQuery{}, cluster.Linearizable); !errors.As(err, &wrong) {
			t.Errorf("a page of no leases: %v", err)
		}
		if now := n.Status().LastIndex; now != last {
			t.Errorf("the log went from %d to %d", last, now)
		}
	})
}
