package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

// standIn stands for a cluster. It grants everything but jobs/taken.
func standIn() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var a wire.AcquireRequest
		_ = json.NewDecoder(r.Body).Decode(&a)
		switch {
		case a.Name == "jobs/taken":
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, `{"status":409,"code":"held","detail":"token 41 is live","lease":{"holder":"worker-2","token":41},"retry_after_ms":1500}`)
		case r.Method == http.MethodPut:
			fmt.Fprint(w, `{"name":"report","token":42,"fenced":true,"verdict":"accepted","index":43}`)
		default:
			fmt.Fprintf(w, `{"name":%q,"holder":"worker-1","token":42,"ttl_ms":10000,"cluster_id":"c1"}`, a.Name)
		}
	}))
}

func dial(server *httptest.Server) *client.Client {
	c, err := client.New(client.Config{Servers: []string{server.URL}, Holder: "worker-1"})
	if err != nil {
		panic(err)
	}
	return c
}

// Work that must not overlap runs under the context of a lease, and passes the
// token on to what it changes.
func ExampleClient_Acquire() {
	server := standIn()
	defer server.Close()
	c := dial(server)
	defer c.Close()

	l, err := c.Acquire(context.Background(), "jobs/nightly", client.AcquireOptions{TTL: 10 * time.Second, Wait: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Release()
	fmt.Println("token", l.Token(), l.State())
	// The context ends when the lease is lost.
	written, err := l.Write(l.Context(), "report", "done")
	fmt.Println(written.Verdict, err)
	// Output:
	// token 42 held
	// accepted <nil>
}

// What the outcomes of an acquire mean.
func ExampleClient_Acquire_errors() {
	server := standIn()
	defer server.Close()
	c := dial(server)
	defer c.Close()

	_, err := c.Acquire(context.Background(), "jobs/taken", client.AcquireOptions{})
	var refused *client.Error
	switch {
	case errors.Is(err, client.ErrHeld) && errors.As(err, &refused):
		fmt.Println("held by", refused.Holder()+", ask again in", refused.RetryAfter())
	case errors.Is(err, client.ErrUnavailable):
		fmt.Println("no server can be reached, and nothing has happened")
	case errors.Is(err, client.ErrUnknown):
		fmt.Println("nobody has answered in time; what came of it is being undone")
	}
	// Output: held by worker-2, ask again in 1.5s
}

// mayBegin says whether the next step of the work may begin. While the lease is
// uncertain it waits: a renewal may still come.
func mayBegin(ctx context.Context, l *client.Lease) bool {
	for l.State() == client.Uncertain && ctx.Err() == nil {
		select {
		case <-ctx.Done(): // this program is to stop
		case <-l.Done():
		case <-time.After(l.TTL() / 20):
		}
	}
	return ctx.Err() == nil && l.State() == client.Held
}

// Work in steps: each begins only while the lease is held, has the context of the
// lease, and passes the token on.
func ExampleLease_State() {
	server := standIn()
	defer server.Close()
	c := dial(server)
	defer c.Close()

	ctx := context.Background()
	l, err := c.Acquire(ctx, "jobs/nightly", client.AcquireOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for step := 1; step <= 2 && mayBegin(ctx, l); step++ {
		fmt.Println("step", step, "with token", l.Token())
	}
	_ = l.Release()
	fmt.Println("another step:", mayBegin(ctx, l))
	// Output:
	// step 1 with token 42
	// step 2 with token 42
	// another step: false
}

// One of several copies of a program leads, for as long as it has the lease.
func ExampleClient_Elect() {
	server := standIn()
	defer server.Close()
	c := dial(server)
	defer c.Close()

	ctx, stop := context.WithCancel(context.Background())
	err := c.Elect(ctx, "service/leader", client.ElectOptions{}, func(ctx context.Context, l *client.Lease) error {
		fmt.Println("leading with token", l.Token())
		stop()
		<-ctx.Done() // lost, or the program is about to end: come to an end, then return
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading with token 42
	// context canceled
}

// One call, without any renewal.
func ExampleAPI_Acquire() {
	server := standIn()
	defer server.Close()
	api, err := client.NewAPI(client.Config{Servers: []string{server.URL}})
	if err != nil {
		panic(err)
	}
	defer api.Close()

	// Count from before the request is sent: the server starts its clock later,
	// so this deadline passes first.
	begun := time.Now()
	grant, err := api.Acquire(context.Background(), wire.AcquireRequest{Name: "jobs/nightly", Holder: "worker-1", TTLMillis: 10_000})
	if err != nil {
		fmt.Println(err)
		return
	}
	deadline := begun.Add(10 * time.Second)
	fmt.Println("token", grant.Token, "is mine for now:", time.Now().Before(deadline))
	// Output: token 42 is mine for now: true
}
