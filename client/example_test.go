package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"leasehold/client"
	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// One acquire, and what its outcomes mean.
func ExampleClient_Acquire() {
	// Stands in for a cluster in which somebody else holds the lease.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"status":409,"code":"held","detail":"token 41 is live"}`)
	}))
	defer server.Close()

	c, err := client.New(client.Config{Servers: []string{server.URL}})
	if err != nil {
		panic(err)
	}
	defer c.Close()

	// Count from before the request is sent: the server starts its clock later,
	// so this deadline passes first.
	deadline := time.Now().Add(10 * time.Second)
	grant, err := c.Acquire(context.Background(), wire.AcquireRequest{
		Name: "jobs/nightly", Holder: "worker-1", TTLMillis: 10_000,
	})
	switch {
	case err == nil:
		fmt.Println("token", grant.Token, "is mine until", deadline)
	case errors.Is(err, lease.ErrHeld):
		fmt.Println(err)
	case errors.Is(err, client.ErrUnknown):
		fmt.Println("ask again with the same request id")
	}
	// Output: held: token 41 is live
}
