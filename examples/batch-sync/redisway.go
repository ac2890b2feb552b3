package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"leasehold/fence/sqlfence"
)

// redisWay is how it is usually done: a key with a TTL is the lock, and who is
// finished deletes it.
type redisWay struct {
	redis *redis.Client
	lock  string
	ttl   time.Duration
	job   *job
}

// tick tries to get the lock and, with it, pushes what is pending. The timer starts
// it in a goroutine of its own each time, whether the one before has ended or not.
func (r *redisWay) tick(ctx context.Context, w *worker) error {
	mine := w.name + "/" + rand.Text()
	locked, err := r.redis.SetNX(ctx, r.lock, mine, r.ttl).Result() // SET … NX PX …
	if err != nil || !locked {
		return err
	}
	r.job.enter(w)
	defer r.job.leave()
	if err := r.sync(ctx, w); errors.Is(err, errCrashed) {
		r.job.counts.crashed.Add(1)
		return nil // the key stays until its TTL is over
	} else if err != nil {
		return err
	}
	return r.unlock(ctx, w, mine)
}

// sync pushes all pending batches and marks each as pushed.
func (r *redisWay) sync(ctx context.Context, w *worker) error {
	batches, err := pending(ctx, r.job.store)
	if err != nil {
		return err
	}
	for _, batch := range batches {
		p := w.nextStep()
		if err := w.pauseAt(beforePush, p, batch); err != nil {
			return err
		}
		booking, err := r.job.push(ctx, w, p, push{Batch: batch})
		if err != nil {
			return err
		}
		if err := w.pauseAt(beforeMark, p, batch); err != nil {
			return err
		}
		err = sqlfence.InTx(ctx, r.job.store.DB, nil, func(tx *sql.Tx) error {
			return mark(ctx, tx, batch, booking, w.name)
		})
		if err != nil {
			return err
		}
		if err := w.pauseAt(afterMark, p, batch); err != nil {
			return err
		}
	}
	return nil
}

// unlock deletes the key, whoever has set it. GETDEL does what DEL does, in one step
// and without any condition, and tells what it has deleted. That is how it is
// counted whose lock it was; nothing is decided by it.
func (r *redisWay) unlock(ctx context.Context, w *worker, mine string) error {
	deleted, err := r.redis.GetDel(ctx, r.lock).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	if deleted == mine {
		return nil
	}
	r.job.counts.lost.Add(1) // expired in the middle
	owner, _, _ := strings.Cut(deleted, "/")
	if deleted != "" && owner != w.name {
		r.job.counts.foreignDels.Add(1)
		w.log("%s deletes the lock of %s", w.name, owner)
	}
	return nil
}

func (r *redisWay) close() error {
	return errors.Join(r.redis.Del(context.Background(), r.lock).Err(), r.redis.Close())
}

// openRedis connects to a server or, without an address, to one in this process.
func openRedis(ctx context.Context, url string) (*redis.Client, func(), error) {
	if url == "" {
		return embeddedRedis()
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	c := redis.NewClient(options)
	if err := c.Ping(ctx).Err(); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, func() {}, nil
}

// embeddedRedis starts a miniredis. Its TTLs stand still unless somebody moves them
// on, so a goroutine does, by the time that really passes.
func embeddedRedis() (c *redis.Client, stop func(), err error) {
	m := miniredis.NewMiniRedis()
	if err := m.StartAddr("127.0.0.1:0"); err != nil {
		return nil, nil, err
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-done:
				return
			case <-tick.C:
				now := time.Now()
				m.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	stop = func() { close(done); <-stopped; m.Close() }
	return redis.NewClient(&redis.Options{Addr: m.Addr()}), stop, nil
}
