package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"leasehold/torture/history"
)

// The work is small enough for one machine.
const (
	clients  = 8
	readers  = 2
	names    = 5
	shortest = 400 * time.Millisecond // TTL
	longest  = 2 * time.Second
)

// player is one client of the peer.
type player struct {
	id    string
	peer  Peer
	rand  *rand.Rand
	to    *history.Recorder
	begun time.Time
	asked int
}

// play lets all clients work until ctx ends.
func play(ctx context.Context, peer Peer, seed uint64, to *history.Recorder) {
	begun := time.Now()
	var all sync.WaitGroup
	for i := range clients + readers {
		p := &player{id: fmt.Sprintf("c%02d", i+1), peer: peer, rand: rand.New(rand.NewPCG(seed, uint64(i))), to: to, begun: begun}
		do := p.contend
		if i >= clients {
			do = p.read
		}
		all.Go(func() {
			for p.sleep(ctx, p.between(0, 150*time.Millisecond)) {
				do(ctx)
			}
		})
	}
	all.Wait()
	to.Add(history.End{At: time.Since(begun)})
}

func (p *player) now() time.Duration { return time.Since(p.begun) }

func (p *player) name() string { return fmt.Sprintf("l%d", p.rand.IntN(names)) }

func (p *player) between(low, high time.Duration) time.Duration {
	return low + time.Duration(p.rand.Int64N(int64(high-low)+1))
}

func (p *player) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// contend asks for a lease, keeps it for a while, sometimes asleep, and gives it back or
// lets it run out.
func (p *player) contend(ctx context.Context) {
	from := p.now()
	g, ok := p.acquire(ctx, p.name(), p.between(shortest, longest).Round(time.Millisecond))
	if !ok {
		return
	}
	for range p.rand.IntN(5) {
		if !p.sleep(ctx, g.TTL/3) {
			break
		}
		if p.rand.IntN(8) == 0 {
			asleep := p.now()
			p.sleep(ctx, p.between(g.TTL+g.TTL/10, 2*g.TTL+g.TTL/2))
			p.to.Add(history.Fault{From: asleep, To: p.now(), Kind: "pause", Client: p.id})
		}
		if p.ask(ctx, history.Renew, g, p.peer.Renew) != history.OK {
			break
		}
	}
	p.to.Add(history.Belief{Client: p.id, Name: g.Name, Token: g.Token, From: from, To: p.now()})
	switch p.rand.IntN(3) {
	case 0:
		p.sleep(ctx, g.TTL+g.TTL/2)
		p.ask(ctx, history.Renew, g, p.peer.Renew)
		p.ask(ctx, history.Release, g, p.peer.Release)
	default:
		p.ask(ctx, history.Release, g, p.peer.Release)
	}
}

func (p *player) acquire(ctx context.Context, name string, ttl time.Duration) (Grant, bool) {
	p.asked++
	op := history.Operation{
		Client: p.id, Kind: history.Acquire, Name: name, Holder: p.id, RequestID: fmt.Sprintf("%s-%d", p.id, p.asked), TTL: ttl, Call: p.now(),
	}
	try, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	g, ok, err := p.peer.Acquire(try, name, p.id, ttl)
	switch {
	case err != nil:
		op.Outcome = history.Unknown
	case !ok:
		op.Outcome, op.Code = history.Refused, "held"
	default:
		op.Outcome, op.TTL, op.Answer = history.OK, g.TTL, history.Answer{Token: g.Token, Holder: p.id, TTL: g.TTL}
	}
	p.done(op)
	return g, err == nil && ok
}

// ask is for a call about a grant, which is refused if the grant is over.
func (p *player) ask(ctx context.Context, kind history.Kind, g Grant, call func(context.Context, Grant) (bool, error)) history.Outcome {
	op := history.Operation{Client: p.id, Kind: kind, Name: g.Name, Holder: g.Holder, Token: g.Token, Call: p.now(), Outcome: history.OK}
	try, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	switch ok, err := call(try, g); {
	case err != nil:
		op.Outcome = history.Unknown
	case !ok:
		op.Outcome, op.Code = history.Refused, "lease_lost"
	default:
		op.Answer.Token = g.Token
	}
	p.done(op)
	return op.Outcome
}

func (p *player) read(ctx context.Context) {
	op := history.Operation{Client: p.id, Kind: history.Get, Name: p.name(), Call: p.now(), Outcome: history.OK}
	try, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	holder, token, err := p.peer.Get(try, op.Name)
	op.Answer.State = "free"
	if token != 0 {
		op.Answer.State, op.Answer.Holder, op.Answer.Token = "held", holder, token
	}
	if err != nil {
		op.Outcome, op.Answer = history.Unknown, history.Answer{}
	}
	p.done(op)
}

func (p *player) done(op history.Operation) {
	op.Return = p.now()
	p.to.Add(op)
}
