package client

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"leasehold/lease"
)

const (
	// DefaultTimeout of one call. It is longer than a failover with the default
	// timeouts of a server takes, so that a call survives one.
	DefaultTimeout = 10 * time.Second
	// DefaultTryTimeout of one try. A server gives up on a request after 2 s, so
	// one that has said nothing for longer is paused or cut off.
	DefaultTryTimeout = 3 * time.Second
)

// dialTimeout bounds the making of a connection. It is shorter than a try, so
// that a host that does not answer is known to have received nothing.
const dialTimeout = time.Second

// Config of a [Client] or an [API].
type Config struct {
	// Servers of one cluster to ask, each as host:port or http://host:port, in
	// any order. One is enough to find the others' leader; all of them keep the
	// client working when that one is down.
	Servers []string
	// HTTPClient carries the requests. Nil means one of the client's own, which
	// keeps connections open. Its redirect policy is not used.
	HTTPClient *http.Client
	// Timeout of one call with all its tries. 0 means [DefaultTimeout].
	Timeout time.Duration
	// TryTimeout of one try at one server, so that a server that takes a request
	// and never answers does not use up the whole call. 0 means
	// [DefaultTryTimeout].
	TryTimeout time.Duration
	// Holder is what a [Client] calls itself. Empty means [NewHolder]. Two processes
	// must not share one, unless the second is the first one started again, which
	// then takes over with [AcquireOptions.Reclaim].
	Holder string
}

// Validate says what is wrong with the configuration.
func (c Config) Validate() error {
	if len(c.Servers) == 0 {
		return errors.New("no server is given")
	}
	for _, server := range c.Servers {
		if _, err := parseServer(server); err != nil {
			return err
		}
	}
	if c.Timeout < 0 {
		return fmt.Errorf("timeout %v is negative", c.Timeout)
	}
	if c.TryTimeout < 0 {
		return fmt.Errorf("try timeout %v is negative", c.TryTimeout)
	}
	if c.Holder != "" {
		return lease.CheckHolder(c.Holder)
	}
	return nil
}

// NewHolder gives a holder that no other process has, in the form
// host-pid-random: a name that two of them shared would let each act on the
// other's grants.
func NewHolder() string {
	host, err := os.Hostname()
	if err != nil || lease.CheckHolder(host) != nil || len(host) > 200 {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:8]))
}

// parseServer gives the base URL of a server, without a slash at its end.
func parseServer(server string) (string, error) {
	bad := func(why string) (string, error) {
		return "", fmt.Errorf("server %q: %s; a server is written host:port or http://host:port", server, why)
	}
	text := server
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return bad("it cannot be read as an address")
	case u.Scheme != "http" && u.Scheme != "https":
		return bad("its scheme is " + u.Scheme)
	case u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return bad("it has more than a host and a port")
	}
	host, port, err := net.SplitHostPort(u.Host)
	if err != nil || host == "" || port == "" {
		return bad("host or port is missing")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return bad("the port is not a number from 1 to 65535")
	}
	return u.Scheme + "://" + u.Host, nil
}

// newHTTPClient gives an HTTP client that keeps a connection open for each of
// many concurrent callers. No proxy: the address of a node is also its identity,
// and a proxy that answers in its place would make up answers of its own.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTimeout}).DialContext,
		MaxIdleConnsPerHost: 1024,
		// Below the 2 minutes after which a server closes an idle connection, so
		// that no request is sent into a closing one.
		IdleConnTimeout:    90 * time.Second,
		DisableCompression: true,
	}}
}
