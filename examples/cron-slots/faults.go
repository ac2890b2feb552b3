package main

import (
	"context"
	"errors"
	"slices"
)

// breakThings kills and pauses replicas in the middle of a job, each time the one
// that runs it, until that has happened as often as the settings say, or the last
// slot is done. Only a fault that has bitten counts: one that came when the job was
// over already has shown nothing.
func (c *crew) breakThings(ctx context.Context) (r report, err error) {
	for r.kills < c.kills || r.pauses < c.pauses {
		victim, err := c.until(ctx, func(e event) bool { return e.Kind == begins || e.Kind == allDone })
		if err != nil || victim.Kind == allDone {
			return r, err
		}
		fault, count := c.kill, &r.kills
		if r.kills == c.kills || r.pauses < c.pauses && r.kills > 2*r.pauses+1 {
			fault, count = c.pause, &r.pauses
		}
		bit, err := fault(ctx, victim)
		if err != nil {
			return r, err
		}
		if bit {
			*count++
		}
	}
	return r, nil
}

// kill kills a replica that runs a job. It has bitten if another has to begin the
// same slot again.
func (c *crew) kill(ctx context.Context, victim event) (bit bool, err error) {
	c.replicas[victim.Replica].Kill()
	c.say("kill -9 %s, in the middle of slot %s", victim.Replica, short(victim.Slot))
	next, err := c.successor(ctx, victim)
	return next.Slot == victim.Slot, err
}

// pause pauses a replica that runs a job until another has begun the slot again. It
// has bitten if the result of the first one comes, late, and is refused.
func (c *crew) pause(ctx context.Context, victim event) (bit bool, err error) {
	process := c.replicas[victim.Replica]
	process.Pause()
	c.say("pause %s, in the middle of slot %s", victim.Replica, short(victim.Slot))
	// Should it have been in the middle of a transaction then with SQLite nobody else
	// can write until it goes on, so the wait is bounded.
	limited, cancel := context.WithTimeoutCause(ctx, 5*c.ttl, errPaused)
	defer cancel()
	next, err := c.successor(limited, victim)
	process.Resume()
	c.say("resume %s, which knows nothing of it", victim.Replica)
	if errors.Is(err, errPaused) {
		return false, nil
	}
	if err != nil || next.Slot != victim.Slot {
		return false, err
	}
	_, err = c.until(ctx, func(e event) bool {
		return e.Kind == refused && e.Replica == victim.Replica && e.Slot == victim.Slot
	})
	return err == nil, err
}

var errPaused = errors.New("nobody takes over from a replica that is paused")

// successor waits until a replica with a later grant begins a slot, or finds that
// all are done.
func (c *crew) successor(ctx context.Context, victim event) (event, error) {
	return c.until(ctx, func(e event) bool {
		return (e.Kind == begins || e.Kind == allDone) && e.Token > victim.Token
	})
}

// has tells whether an event of a kind was seen.
func (c *crew) has(k kind) bool {
	return slices.ContainsFunc(c.seen, func(e event) bool { return e.Kind == k })
}
