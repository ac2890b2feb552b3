package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// redisPeer uses the lock that is often recommended for one Redis: SET NX PX, ended only
// by a script that compares the owner. Redis has no tokens of its own, so the script
// that takes the lock also counts.
type redisPeer struct{ c *redis.Client }

var _ Peer = (*redisPeer)(nil)

func openRedis(endpoint string) *redisPeer {
	return &redisPeer{redis.NewClient(&redis.Options{Addr: endpoint, MaxRetries: -1})}
}

func (p *redisPeer) Close() error { return p.c.Close() }

var (
	acquire = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local token = redis.call('INCR', 'tokens')
redis.call('SET', KEYS[1], token .. ' ' .. ARGV[1], 'PX', ARGV[2])
return token`)
	renew = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`)
	release = redis.NewScript(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`)
)

func (g Grant) owner() string { return strconv.FormatUint(g.Token, 10) + " " + g.Holder }

func (p *redisPeer) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Grant, bool, error) {
	token, err := acquire.Run(ctx, p.c, []string{name}, holder, ttl.Milliseconds()).Uint64()
	return Grant{Name: name, Holder: holder, Token: token, TTL: ttl}, token != 0, err
}

func (p *redisPeer) Renew(ctx context.Context, g Grant) (bool, error) {
	return renew.Run(ctx, p.c, []string{g.Name}, g.owner(), g.TTL.Milliseconds()).Bool()
}

func (p *redisPeer) Release(ctx context.Context, g Grant) (bool, error) {
	return release.Run(ctx, p.c, []string{g.Name}, g.owner()).Bool()
}

func (p *redisPeer) Get(ctx context.Context, name string) (string, uint64, error) {
	owner, err := p.c.Get(ctx, name).Result()
	if errors.Is(err, redis.Nil) {
		return "", 0, nil
	}
	token, holder, _ := strings.Cut(owner, " ")
	n, _ := strconv.ParseUint(token, 10, 64)
	return holder, n, err
}

// forget makes it lose all, as a failover does to a replica that has not got the last
// writes.
func (p *redisPeer) forget(ctx context.Context) error { return p.c.FlushAll(ctx).Err() }
