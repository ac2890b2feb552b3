package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// signals are those that this process gets while it runs a command under a lease,
// or waits for the lease. Each goes to the command if there is one. A stop also
// ends the waiting, and no command is started after it.
type signals struct {
	arriving chan os.Signal
	cancel   context.CancelCauseFunc
	detach   func() bool
	done     chan struct{}

	mu   sync.Mutex // guards what follows
	stop *signalError
	job  chan syscall.Signal // of the command that runs, nil if none does
}

// stopSignals ask a process to come to its end.
var stopSignals = []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// catchSignals gives a context that ends with the first stop.
func catchSignals(ctx context.Context) (context.Context, *signals) {
	s := &signals{arriving: make(chan os.Signal, 16), done: make(chan struct{})}
	ctx, s.cancel = context.WithCancelCause(ctx)
	for _, sig := range append(slices.Clone(stopSignals), passedOn...) {
		if !signal.Ignored(sig) { // as under nohup: then the command ignores it too
			signal.Notify(s.arriving, sig)
		}
	}
	parent := ctx
	s.detach = context.AfterFunc(parent, func() {
		// Ended from within this process. A signal comes by itself.
		var signalled *signalError
		if cause := context.Cause(parent); cause != errSignalsReleased && !errors.As(cause, &signalled) {
			s.dispatch(syscall.SIGTERM)
		}
	})
	go func() {
		for {
			select {
			case sig := <-s.arriving:
				s.dispatch(sig.(syscall.Signal))
			case <-s.done:
				return
			}
		}
	}()
	return ctx, s
}

var errSignalsReleased = errors.New("no more signals are caught")

func (s *signals) dispatch(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil && slices.Contains(stopSignals, sig) && (sig != syscall.SIGHUP || s.job == nil) {
		s.stop = &signalError{sig}
		s.cancel(s.stop)
	}
	if s.job != nil {
		select {
		case s.job <- sig:
		default: // a command that has 16 signals to look at needs no more
		}
	}
}

// begin gives the signals for a command that is about to be started. It refuses if
// a stop has begun.
func (s *signals) begin() (<-chan syscall.Signal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil {
		return nil, s.stop
	}
	s.job = make(chan syscall.Signal, 16)
	return s.job, nil
}

// end: the command is no more.
func (s *signals) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.job = nil
}

func (s *signals) release() {
	signal.Stop(s.arriving)
	s.detach()
	s.cancel(errSignalsReleased)
	close(s.done)
}
