package client

import (
	"testing"
	"time"
)

// Servers are understood with and without a scheme, and nothing more than an
// address is accepted.
func TestParseServer(t *testing.T) {
	for _, tt := range []struct{ server, want string }{
		{"127.0.0.1:8001", "http://127.0.0.1:8001"},
		{"localhost:8001", "http://localhost:8001"}, // url.Parse alone takes localhost for a scheme
		{"http://n1.example:80/", "http://n1.example:80"},
		{"https://n1.example:443", "https://n1.example:443"},
		{"[::1]:8001", "http://[::1]:8001"},
		{"", ""},
		{"n1", ""},
		{":8001", ""},
		{"n1:", ""},
		{"n1:http", ""},
		{"n1:0", ""},
		{"n1:65536", ""},
		{"ftp://n1:1", ""},
		{"http://n1:1/v1", ""},
		{"http://n1:1?x=1", ""},
		{"http://u:p@n1:1", ""},
		{"n1:1 ", ""},
	} {
		got, err := parseServer(tt.server)
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("parseServer(%q) = %q, %v; want %q", tt.server, got, err, tt.want)
		}
	}
}

// A configuration that cannot work is refused when the client is made.
func TestNewAPI_RefusesABadConfig(t *testing.T) {
	for name, config := range map[string]Config{
		"no server":        {},
		"bad server":       {Servers: []string{"n1:1", "n2"}},
		"negative timeout": {Servers: []string{"n1:1"}, Timeout: -time.Second},
		"negative try":     {Servers: []string{"n1:1"}, TryTimeout: -time.Second},
	} {
		if _, err := NewAPI(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A server given twice is asked once in a round.
func TestNewAPI_ServerGivenTwice_IsOneServer(t *testing.T) {
	c, err := NewAPI(Config{Servers: []string{"n1:1", "http://n1:1/", "n2:2"}})
	if err != nil {
		t.Fatal(err)
	}
	if order := c.servers.order(); len(order) != 2 {
		t.Errorf("order %q, want two servers", order)
	}
}
