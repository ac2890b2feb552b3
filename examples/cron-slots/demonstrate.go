package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"leasehold/client"
	"leasehold/examples/nodes"
)

// demonstrate starts everything that is needed, breaks it as often as the settings
// say, waits until every slot has its result, and stops everything.
func demonstrate(ctx context.Context, s settings, out io.Writer) (r report, err error) {
	keep := func(closing func() error) { err = errors.Join(err, closing()) }
	if s.servers == "" {
		cluster, err := nodes.Start(3)
		if err != nil {
			return r, err
		}
		defer keep(cluster.Close)
		s.servers = strings.Join(cluster.Servers(), ",")
	}
	if err := s.answers(ctx); err != nil {
		return r, err
	}
	folder, err := os.MkdirTemp("", "cron-slots-")
	if err != nil {
		return r, err
	}
	defer keep(func() error { return os.RemoveAll(folder) })
	s.sqlite = filepath.Join(folder, "results.db")
	s.job = "report-" + time.Now().Format("20060102-150405.000") // one of its own for each run
	records, err := s.openRecords()
	if err != nil {
		return r, err
	}
	defer keep(records.close)
	if err := records.create(ctx); err != nil {
		return r, fmt.Errorf("create the tables: %w", err)
	}
	s.schedule.first = slot{time.Now().Add(s.schedule.every).Truncate(max(s.schedule.every, time.Millisecond))}
	if r, err = s.perform(ctx, out); err != nil {
		return r, err
	}
	err = r.read(ctx, s, records)
	return r, err
}

// perform runs the replicas until the last slot is done.
func (s settings) perform(ctx context.Context, out io.Writer) (r report, err error) {
	fmt.Fprintf(out, "%d replicas, %d slots, one every %v from %s UTC on; a job takes %v, the TTL is %v\n",
		s.replicas, s.schedule.count, s.schedule.every, short(s.schedule.first.String()), s.work, s.ttl)
	crew, err := newCrew(s, out)
	if err != nil {
		return r, err
	}
	defer func() {
		err = errors.Join(err, crew.close())
		r.pids = crew.pids
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, s.patience(), errors.New("it takes too long, something hangs"))
	defer cancel()
	if r, err = crew.breakThings(ctx); err != nil {
		return r, err
	}
	if !crew.has(allDone) {
		_, err = crew.until(ctx, func(e event) bool { return e.Kind == allDone })
	}
	r.events = crew.seen
	return r, err
}

// answers ensures that there is a cluster, before ten replicas wait for it.
func (s settings) answers(ctx context.Context) error {
	api, err := client.NewAPI(client.Config{Servers: s.serverList()})
	if err != nil {
		return err
	}
	defer api.Close()
	_, err = api.Lease(ctx, "any", client.Linearizable)
	return err
}

// patience is much more than a demonstration takes.
func (s settings) patience() time.Duration {
	return time.Duration(s.schedule.count)*(s.schedule.every+s.work) + time.Duration(s.kills+s.pauses)*5*s.ttl + 30*time.Second
}
