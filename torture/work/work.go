package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Config of the work.
type Config struct {
	// Servers of the cluster, each as host:port.
	Servers []string
	// Dial gives the network of a player.
	Dial func(player string) Dial
	// Seed of all chance.
	Seed uint64
	// Log gets what the players do and see.
	Log *Log

	Names          int           // to be fought over
	MinTTL, MaxTTL time.Duration // of their leases, in whole milliseconds
	// Until: after so long the players bring what they do to an end.
	Until time.Duration
}

// DefaultConfig lacks only servers, network, seed and log.
func DefaultConfig() Config {
	return Config{Names: 24, MinTTL: 400 * time.Millisecond, MaxTTL: 2 * time.Second, Until: time.Minute}
}

// Validate says what is wrong with the configuration, if anything.
func (c *Config) Validate() error {
	switch {
	case len(c.Servers) == 0 || c.Dial == nil || c.Log == nil:
		return errors.New("servers, network or log are missing")
	case c.Names < 1:
		return fmt.Errorf("there are %d names, there must be at least 1", c.Names)
	case c.MinTTL < 10*time.Millisecond || c.MaxTTL < c.MinTTL:
		return fmt.Errorf("TTLs from %v to %v make no sense", c.MinTTL, c.MaxTTL)
	}
	return nil
}

func (c *Config) name(i int) string { return fmt.Sprintf("l%02d", i) }

// Role is what a player does until ctx ends.
type Role struct {
	Name string
	Play func(ctx context.Context, p *Player) error
}

// Roles of the players: twelve clients, and those who look on.
func Roles() []Role {
	hold, fight := Role{"hold", hold}, Role{"contend", contend}
	queue, count := Role{"queue", queue}, Role{"count", count}
	batch, elect := Role{"batch", batch}, Role{"elect", elect}
	return []Role{
		hold, hold, hold, fight, fight, queue, queue, count, count, batch, elect, elect,
		{"read", read},
		{"probe", probe},
		{"herd", herd},
	}
}

// Run lets the players play until the time is up, or ctx ends, and returns when all
// of them have come to their end.
func Run(ctx context.Context, cfg Config) error {
	if err := cfg.Validate(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Until-cfg.Log.Now())
	defer cancel()
	var all sync.WaitGroup
	errs := make([]error, len(Roles()))
	for i, role := range Roles() {
		all.Go(func() {
			p, err := newPlayer(&cfg, fmt.Sprintf("c%02d-%s", i+1, role.Name), uint64(i))
			if err == nil {
				err = role.Play(ctx, p)
				p.close()
			}
			errs[i] = err
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
