package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	// tryTimeout is how long a client waits for an answer to one try.
	tryTimeout = time.Second
	// retryPause is before the next try. Retry-After says a second, which a client
	// that is not a stopwatch had better keep to.
	retryPause = 20 * time.Millisecond
)

// load is clients that each send one request after the other, to all copies in turn,
// and send one again with the same key until it is answered with 200.
type load struct {
	addresses []string
	http      *http.Client
	clients   sync.WaitGroup
	give      func(success)
}

// success is a request that was answered with 200.
type success struct {
	answer
	key    string
	asked  string // address of the copy that was asked
	at     time.Time
	failed map[string]int // tries before, by what came of them
}

func newLoad(addresses []string, give func(success)) *load {
	return &load{addresses: addresses, give: give, http: &http.Client{
		Timeout: tryTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 64},
	}}
}

// start starts n clients. When it is enough they finish the request that they are
// at, so that each one that was sent has an outcome; ctx ends them at once.
func (l *load) start(ctx context.Context, enough <-chan struct{}, n int) {
	for client := range n {
		l.clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				select {
				case <-enough:
					return
				default:
				}
				if s, ok := l.insist(ctx, fmt.Sprintf("client-%d/%d", client, i), client+i); ok {
					l.give(s)
				}
			}
		})
	}
}

// insist sends a request until it succeeds.
func (l *load) insist(ctx context.Context, key string, first int) (success, bool) {
	s := success{key: key, failed: map[string]int{}}
	for try := first; ctx.Err() == nil; try++ {
		s.asked = l.addresses[try%len(l.addresses)]
		status, err := l.send(ctx, &s)
		switch {
		case status == http.StatusOK && err == nil:
			s.at = time.Now()
			return s, true
		case err != nil:
			s.failed["no answer"]++
		default:
			s.failed[fmt.Sprint(status)]++
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
		}
	}
	return s, false
}

// send is one try.
func (l *load) send(ctx context.Context, s *success) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.asked+"/entries?amount=1", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set(keyHeader, s.key)
	response, err := l.http.Do(r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	s.answer = answer{}
	return response.StatusCode, json.NewDecoder(response.Body).Decode(&s.answer)
}
