package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/cluster"
	"leasehold/faults/lab"
	"leasehold/httpapi"
)

// stopTimeout bounds an orderly stop: leadership handed over, requests in flight
// answered, files closed.
const stopTimeout = 10 * time.Second

// serve runs a node until ctx ends, which is an orderly stop, or until the node
// can go no further, which is an error.
func (p *program) serve(ctx context.Context, f serveFlags) error {
	var board *lab.Board // stays nil but in a lab
	logger := hclog.New(&hclog.LoggerOptions{
		Name: f.id, Level: hclog.LevelFromString(f.logLevel), Output: p.stderr, Exclude: isHangUp,
		TimeFn: func() time.Time { return board.WallTime() },
	})
	if f.lab {
		board = lab.New(logger.Named("lab"), f.labSeed)
		logger.Warn("THIS NODE IS A LAB: anyone who reaches its port can make it fail. Trust it with nothing", "seed", f.labSeed)
	}
	cfg := f.config(logger)
	cfg.Lab = board
	node, err := cluster.Open(cfg)
	if err != nil {
		return err
	}
	api, err := httpapi.New(httpapi.Config{Backend: node, MinTTL: f.minTTL, MaxTTL: f.maxTTL, Lab: board, Logger: logger.Named("http")})
	if err != nil {
		return errors.Join(err, node.Close())
	}
	served := make(chan error, 1)
	go func() { served <- api.Serve(node.HTTP()) }()
	logger.Info("serving", "address", f.address, "data", f.data, "version", version())

	select {
	case <-ctx.Done():
		logger.Info("stopping", "reason", context.Cause(ctx))
		return stop(node, api, logger)
	case <-node.Failed():
		// The reason is told once, by whoever reports the error; answering what can
		// be answered, and closing what is left, is a courtesy, and must not keep the
		// process from ending.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		api.Shutdown(ctx)
		closeWithin(node, time.Second)
		return node.Err()
	case err := <-served:
		closeWithin(node, time.Second)
		return fmt.Errorf("clients can no longer be served: %w", err)
	}
}

// isHangUp picks out what Raft's transport calls an error each time another node
// closes its connections, as every stop and every kill does.
func isHangUp(_ hclog.Level, message string, args ...any) bool {
	return message == "failed to decode incoming command" && slices.ContainsFunc(args, func(arg any) bool {
		err, _ := arg.(error)
		return errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF)
	})
}

// stop hands leadership over, lets requests in flight finish, and closes.
func stop(node *cluster.Node, api *httpapi.Server, logger hclog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := node.StepDown(ctx); err != nil {
		logger.Warn("leadership was not handed over; the others elect a leader when they miss this one", "reason", err)
	}
	if err := api.Shutdown(ctx); err != nil {
		logger.Warn("some requests were cut off", "reason", err)
	}
	return closeWithin(node, stopTimeout)
}

func closeWithin(node *cluster.Node, timeout time.Duration) error {
	closed := make(chan error, 1)
	go func() { closed <- node.Close() }()
	select {
	case err := <-closed:
		return err
	case <-time.After(timeout):
		return fmt.Errorf("this node did not close within %v; its data is safe on disk", timeout)
	}
}

// config is what the flags say, for a node.
func (f serveFlags) config(logger hclog.Logger) cluster.Config {
	cfg := cluster.DefaultConfig()
	cfg.ID, cfg.Address, cfg.Bind, cfg.Founders = f.id, f.address, f.bind, f.members
	cfg.Disk = &cluster.Folder{Path: f.data, Logger: logger}
	cfg.Logger, cfg.Version = logger, version()
	cfg.MinTTL, cfg.MaxTTL = f.minTTL, f.maxTTL
	cfg.MaxLeases, cfg.MaxWaiters = f.maxLeases, f.maxWaiters
	cfg.HeartbeatTimeout, cfg.ElectionTimeout = f.heartbeatTimeout, f.electionTimeout
	cfg.SnapshotThreshold, cfg.SnapshotInterval, cfg.TrailingLogs = f.snapshotThreshold, f.snapshotInterval, f.trailingLogs
	return cfg
}
