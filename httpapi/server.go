package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"leasehold/cluster"
	"leasehold/faults/lab"
	"leasehold/fsm"
	"leasehold/lease"
)

// How long a client may take. There is no limit on the answer: the longest
// requests are those that wait for a lease, and they say how long themselves.
const (
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	idleTimeout   = 2 * time.Minute
)

// maxHeaderBytes leaves room for the cookies that browsers send to every port
// of a host alike.
const maxHeaderBytes = 64 << 10

// Backend is the node behind the API.
type Backend interface {
	// ID names the node.
	ID() string

	// The writes. Nothing happened: *cluster.Refusal, *cluster.NotLeader,
	// *cluster.Unavailable, *cluster.LimitError, *lease.FieldError, or the
	// error of ctx. Nobody knows: *cluster.Unknown. The commands are checked
	// here but for limits that only the node knows, and an Acquire has its
	// RequestID.
	Acquire(ctx context.Context, c lease.Acquire) (cluster.Outcome, error)
	Renew(ctx context.Context, c lease.Renew) (cluster.Outcome, error)
	// RenewMany is one entry with an outcome for each renewal, whose Err is nil or a
	// *cluster.Refusal.
	RenewMany(ctx context.Context, c lease.RenewMany) (lease.Entry, []cluster.Renewed, error)
	Release(ctx context.Context, c lease.Release) (cluster.Outcome, error)
	Revoke(ctx context.Context, c lease.Revoke) (cluster.Outcome, error)
	// Write is another write when it is repeated, unlike those above.
	Write(ctx context.Context, c lease.Write) (cluster.Outcome, error)

	// The reads of the replicated state: *cluster.NotLeader,
	// *cluster.Unavailable, or the error of ctx.
	Lease(ctx context.Context, name string, c cluster.Consistency) (cluster.LeaseView, cluster.Read, error)
	Leases(ctx context.Context, q cluster.LeaseQuery, c cluster.Consistency) (cluster.LeasePage, cluster.Read, error)
	Requests(ctx context.Context, id string, c cluster.Consistency) ([]cluster.RequestView, cluster.Read, error)
	// Register returns nil for one that was never written to.
	Register(ctx context.Context, name string, c cluster.Consistency) (*lease.Register, cluster.Read, error)

	// What this node knows of itself. Log returns at most limit entries from
	// index from on; its error is that of the disk.
	Log(from uint64, limit int) (cluster.LogPage, error)
	// Events is what its state machine has done after an index, at most limit
	// entries of it, 1 or more.
	Events(after uint64, limit int) fsm.EventPage
	Applied() lease.Entry // the one that its state machine applied last
	// Leader and term as it knows them; the leader is zero while it knows none.
	Leader() (cluster.Peer, uint64)
	Status() cluster.Status
	Members() cluster.Members
	// Ready returns nil if a leader is known and this node is caught up, else a
	// sentence that says what is amiss.
	Ready() error
}

// Config of a [Server].
type Config struct {
	Backend Backend
	// MinTTL and MaxTTL bound ttl_ms. They are the backend's own bounds, needed
	// here because a refusal has to name them.
	MinTTL, MaxTTL time.Duration
	// Lab has the faults of the backend, in a lab. Else it is nil.
	Lab    *lab.Board
	Logger hclog.Logger
}

// DefaultConfig lacks only the Backend.
func DefaultConfig() Config {
	return Config{
		MinTTL: 100 * time.Millisecond,
		MaxTTL: 24 * time.Hour,
		Logger: hclog.NewNullLogger(),
	}
}

// Validate says what is wrong with the configuration, if anything.
func (c Config) Validate() error {
	switch {
	case c.Backend == nil:
		return errors.New("httpapi: Backend is missing")
	case c.Logger == nil:
		return errors.New("httpapi: Logger is missing")
	case c.MinTTL < time.Millisecond:
		return fmt.Errorf("httpapi: MinTTL is %v but must be at least 1ms, the unit of ttl_ms", c.MinTTL)
	case c.MaxTTL < c.MinTTL:
		return fmt.Errorf("httpapi: MaxTTL is %v but must be at least MinTTL, %v", c.MaxTTL, c.MinTTL)
	}
	return nil
}

// Server serves the API of one node. It is an http.Handler, for tests and for
// embedding; Serve runs it on a listener with the timeouts of this package.
type Server struct {
	backend Backend
	lab     *lab.Board // nil but in a lab
	log     hclog.Logger
	ttl     bounds
	mux     *http.ServeMux
	routes  []route
	origins *http.CrossOriginProtection
	node    []string // the value of the node header, made once
	http    *http.Server
	streams streams

	stopping context.Context // ends when Shutdown or Close begins, and with it what goes on for long
	stop     context.CancelFunc
}

// New makes a server that does nothing until it is asked to.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{
		backend: cfg.Backend,
		lab:     cfg.Lab,
		log:     cfg.Logger,
		ttl:     ttlBounds(cfg.MinTTL, cfg.MaxTTL),
		mux:     http.NewServeMux(),
		origins: http.NewCrossOriginProtection(),
		node:    []string{cfg.Backend.ID()},
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          cfg.Logger.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Warn}),
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		// "OPTIONS *" is answered like any other request.
		DisableGeneralOptionsHandler: true,
	}
	s.register(routes)
	return s, nil
}

// Serve answers requests on l, which it closes, until Shutdown or Close. It then
// returns nil.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(clientListener{l})
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Shutdown stops accepting, ends the streams, lets the other requests in flight
// finish, and returns when none is left. When ctx ends first, it cuts them off and
// returns its error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close() // the error of Shutdown says what matters
	}
	return err
}

// Close cuts off every connection at once. It may be called more than once.
func (s *Server) Close() error {
	s.stop()
	return s.http.Close()
}
