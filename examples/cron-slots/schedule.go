package main

import (
	"context"
	"time"
)

// slot is a time at which the job is due. It is the key of its result, and so is
// derived from the schedule, never from when a replica comes to it.
type slot struct{ time.Time }

// slotLayout is how a slot is written in the database. The text sorts as the time.
const slotLayout = "2006-01-02T15:04:05.000Z"

func (s slot) String() string {
	if s.IsZero() {
		return ""
	}
	return s.UTC().Format(slotLayout)
}

func parseSlot(text string) (slot, error) {
	t, err := time.Parse(slotLayout, text)
	return slot{t}, err
}

// schedule is the list of slots: count of them, without end if it is 0.
type schedule struct {
	first slot
	every time.Duration
	count int
}

// at gives the slot with a number, counted from 0.
func (s schedule) at(n int) slot { return slot{s.first.Add(time.Duration(n) * s.every)} }

// after gives the slot that follows another, the first one after a zero slot. None
// follows the last one.
func (s schedule) after(done slot) (next slot, ok bool) {
	if done.IsZero() {
		return s.first, true
	}
	n := int(done.Sub(s.first.Time)/s.every) + 1
	return s.at(n), s.count == 0 || n < s.count
}

// wait waits until the slot is due, and says whether ctx has lasted that long.
func (s slot) wait(ctx context.Context) bool {
	due := time.NewTimer(time.Until(s.Time))
	defer due.Stop()
	select {
	case <-due.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
