package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"leasehold/fence"
)

// accounting is the API of another company, where each batch must be booked once.
// It knows nothing of locks and compares no tokens. It records every push.
type accounting struct {
	url    string
	server *http.Server
	answer time.Duration // what a push takes at least

	mu       sync.Mutex       // guards what follows
	pushes   []push           // all that came
	bookings []push           // those of them that were booked
	byKey    map[string]int64 // the booking of each idempotency key
}

// push is a request to book a batch.
type push struct {
	Batch  int64  `json:"batch"`
	Worker string `json:"worker"`
	Slow   int64  `json:"slow_ms"` // for the simulation: how much longer the answer takes

	// Key is the header Idempotency-Key. It names what is to be done, not who does it
	// or at which try. Without one each push is a booking.
	Key string `json:"-"`
	// Token is the header Fencing-Token, for the record only.
	Token string `json:"-"`
}

const keyHeader = "Idempotency-Key"

// booked is the answer.
type booked struct {
	Booking int64 `json:"booking"`
}

func startAccounting(answer time.Duration) (*accounting, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &accounting{url: "http://" + l.Addr().String(), answer: answer, byKey: make(map[string]int64)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /bookings", a.serve)
	a.server = &http.Server{Handler: mux} // without timeouts: nobody else calls it
	go a.server.Serve(l)
	return a, nil
}

func (a *accounting) close() error { return a.server.Close() }

func (a *accounting) serve(w http.ResponseWriter, r *http.Request) {
	var p push
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.Key, p.Token = r.Header.Get(keyHeader), r.Header.Get(fence.TokenHeader)
	booking := a.book(p)
	select {
	case <-time.After(a.answer + time.Duration(p.Slow)*time.Millisecond):
	case <-r.Context().Done(): // nobody waits for the answer; the booking stays
	}
	_ = json.NewEncoder(w).Encode(booked{booking})
}

// book makes a booking, or finds the one that the key has made.
func (a *accounting) book(p push) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pushes = append(a.pushes, p)
	if booking, known := a.byKey[p.Key]; known {
		return booking
	}
	a.bookings = append(a.bookings, p)
	booking := int64(len(a.bookings))
	if p.Key != "" {
		a.byKey[p.Key] = booking
	}
	return booking
}

// tally gives how often each batch was pushed and booked.
func (a *accounting) tally() (pushed, booked map[int64]int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := func(pushes []push) map[int64]int {
		times := make(map[int64]int)
		for _, p := range pushes {
			times[p.Batch]++
		}
		return times
	}
	return count(a.pushes), count(a.bookings)
}

// send pushes a batch, as a client of the API, and gives the number of its booking.
// After an error nobody knows whether it was booked.
func send(ctx context.Context, url string, p push) (booking int64, err error) {
	body, err := json.Marshal(p)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/bookings", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	if p.Key != "" {
		r.Header.Set(keyHeader, p.Key)
		r.Header.Set(fence.TokenHeader, p.Token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("the accounting API answers %s", answer.Status)
	}
	var b booked
	if err := json.NewDecoder(answer.Body).Decode(&b); err != nil {
		return 0, err
	}
	if b.Booking == 0 {
		return 0, errors.New("the accounting API names no booking")
	}
	return b.Booking, nil
}
