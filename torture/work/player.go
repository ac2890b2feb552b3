package work

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"leasehold/client"
	"leasehold/torture/history"
)

// Player is one client of the cluster: a name, a source of chance, and a network of
// its own.
type Player struct {
	id    string
	cfg   *Config
	rand  *rand.Rand // of its role alone: not safe for concurrent use
	gate  *gate
	below *http.Transport
	http  *http.Client
	api   *client.API
	asked int // request ids so far
}

// newPlayer makes no connection yet.
func newPlayer(cfg *Config, id string, number uint64) (*Player, error) {
	p := &Player{id: id, cfg: cfg, rand: rand.New(rand.NewPCG(cfg.Seed, number)), gate: newGate()}
	p.below = &http.Transport{
		DialContext: p.gate.through(cfg.Dial(id)), MaxIdleConnsPerHost: 128,
		IdleConnTimeout: 90 * time.Second, DisableCompression: true,
	}
	p.http = &http.Client{Transport: (&recorder{id, p.below, cfg.Log}).transport()}
	var err error
	p.api, err = client.NewAPI(p.config(cfg.Servers))
	return p, err
}

// config of a client of this player.
func (p *Player) config(servers []string) client.Config {
	return client.Config{Servers: servers, HTTPClient: p.http, Timeout: 5 * time.Second, Holder: p.id}
}

func (p *Player) close() { p.below.CloseIdleConnections() }

// chance is true once in n times.
func (p *Player) chance(n int) bool { return p.rand.IntN(n) == 0 }

// between draws a time in whole milliseconds.
func (p *Player) between(low, high time.Duration) time.Duration {
	return low + time.Duration(p.rand.Int64N((high-low).Milliseconds()+1))*time.Millisecond
}

func (p *Player) ttl() time.Duration { return p.between(p.cfg.MinTTL, p.cfg.MaxTTL) }

// name is one of those that the players fight over.
func (p *Player) name() string { return p.cfg.name(p.rand.IntN(p.cfg.Names)) }

// requestID is one that was never used before.
func (p *Player) requestID() string {
	p.asked++
	return fmt.Sprintf("%s-%d", p.id, p.asked)
}

// sleep returns false if the run is over.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// pause stops the player, as SIGSTOP stops a process, for longer than a TTL: up to
// three of them.
func (p *Player) pause(ctx context.Context, ttl time.Duration) {
	from := p.cfg.Log.Now()
	p.gate.close()
	sleep(ctx, p.between(ttl+ttl/10, 3*ttl))
	p.gate.open()
	p.cfg.Log.Add(history.Fault{From: from, To: p.cfg.Log.Now(), Kind: "pause", Client: p.id})
}

// believes notes that it held a lease by its own rule, from then until now.
func (p *Player) believes(name string, token uint64, from time.Duration) {
	p.cfg.Log.Add(history.Belief{Client: p.id, Name: name, Token: token, From: from, To: p.cfg.Log.Now()})
}
