package client_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/client"
	"leasehold/cluster/clustertest"
)

// holder gives one more client of the cluster, with an address of its own.
func holder(t *testing.T, c *clustertest.Cluster, name string) *client.Client {
	t.Helper()
	network := c.Net.Host(name + ":1")
	transport := &http.Transport{
		DialContext:         func(ctx context.Context, _, address string) (net.Conn, error) { return network.Dial(ctx, address) },
		MaxIdleConnsPerHost: 1024,
	}
	cl, err := client.New(client.Config{
		Servers:    []string{clustertest.AddressOf("n1"), clustertest.AddressOf("n2"), clustertest.AddressOf("n3")},
		HTTPClient: &http.Client{Transport: transport}, Holder: name,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cl.Close()
		transport.CloseIdleConnections()
	})
	return cl
}

// A lease is renewed for as long as it is held, with its token and value, and is
// free once it is released.
func TestClient_Acquire_IsRenewedUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := newCluster(t)
		a, b := holder(t, c, "a"), holder(t, c, "b")
		l, err := a.Acquire(t.Context(), "jobs/x", client.AcquireOptions{TTL: 2 * time.Second, Value: "v1"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if l.State() != client.Held || l.Err() != nil || l.Context().Err() != nil {
			t.Errorf("after a minute it is %v, %v", l.State(), l.Err())
		}
		seen, err := api.Lease(t.Context(), "jobs/x", client.Linearizable)
		if err != nil || seen.Token != l.Token() || seen.Holder != "a" || seen.Value != "v1" || seen.ClusterID != l.ClusterID() {
			t.Errorf("the server has %+v, %v", seen, err)
		}
		if seen.Renewals < 80 || seen.Renewals > 125 { // a minute has 90 thirds of the TTL
			t.Errorf("%d renewals in a minute", seen.Renewals)
		}
		var held *client.Error
		if _, err := b.Acquire(t.Context(), "jobs/x", client.AcquireOptions{}); !errors.Is(err, client.ErrHeld) ||
			!errors.As(err, &held) || held.Holder() != "a" || held.RetryAfter() <= 0 {
			t.Errorf("the other got %v", err)
		}
		if err := l.SetValue(t.Context(), "v2"); err != nil {
			t.Error(err)
		}
		if seen, _ := api.Lease(t.Context(), "jobs/x", client.Linearizable); seen.Value != "v2" {
			t.Errorf("the value is %q", seen.Value)
		}
		if w, err := l.Write(t.Context(), "config", "x"); err != nil || !w.Fenced || w.Token != l.Token() {
			t.Errorf("write: %+v, %v", w, err)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
		if l.State() != client.Released || !errors.Is(l.Err(), client.ErrReleased) || context.Cause(l.Context()) != client.ErrReleased {
			t.Errorf("then it is %v, %v", l.State(), l.Err())
		}
		if seen, _ := api.Lease(t.Context(), "jobs/x", client.Linearizable); seen.State != "free" || seen.Last.How != "released" {
			t.Errorf("the server has %+v", seen)
		}
	})
}

// Who waits gets the lease from who releases it, confirmed: its deadline is in the
// future although the wait was longer than the TTL.
func TestClient_Acquire_Waited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, api := newCluster(t)
		a, b := holder(t, c, "a"), holder(t, c, "b")
		first, err := a.Acquire(t.Context(), "x", client.AcquireOptions{TTL: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Second, func() { first.Release() })
		l, err := b.Acquire(t.Context(), "x", client.AcquireOptions{TTL: time.Second, Wait: client.Forever})
		if err != nil || l.State() != client.Held || time.Until(l.Deadline()) < 500*time.Millisecond {
			t.Fatalf("%v: until %v", err, time.Until(l.Deadline()))
		}
		seen, _ := api.Lease(t.Context(), "x", client.Linearizable)
		if seen.Token != l.Token() || seen.Renewals != 1 {
			t.Errorf("the server has %+v, want one renewal", seen)
		}
		if err := l.Release(); err != nil {
			t.Error(err)
		}
	})
}
