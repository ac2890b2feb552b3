package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"leasehold/lease"
)

// route is one call of the API.
type route struct {
	method  string
	pattern string   // of ServeMux, without a method
	query   []string // the parameters it knows; via is known everywhere
	help    string   // for the welcome page
	serve   func(*Server, *call) (answer, error)
}

// routes of the API, in the order in which the welcome page lists them.
var routes = []route{
	{"POST", "/v1/acquire", []string{"request_id"}, "ask for a lease: name holder ttl_ms, optional wait_ms request_id value lock_delay_ms reclaim", (*Server).acquire},
	{"POST", "/v1/renew", nil, "keep it: name holder token, optional ttl_ms value", (*Server).renew},
	{"POST", "/v1/renew-many", nil, "keep many of one holder: holder renewals", (*Server).renewMany},
	{"POST", "/v1/release", nil, "give it back: name holder token", (*Server).release},
	{"POST", "/v1/revoke", nil, "an operator takes it away: name token reason", (*Server).revoke},
	{"GET", "/v1/leases/{name...}", []string{"consistency"}, "one lease; consistency=stale asks this node alone", (*Server).lease},
	{"GET", "/v1/leases", []string{"prefix", "limit", "after", "consistency"}, "the leases that are held or cooling: prefix limit after consistency", (*Server).leases},
	{"GET", "/v1/requests/{request_id...}", []string{"consistency"}, "what became of an acquire", (*Server).requests},
	{"PUT", "/v1/registers/{name...}", nil, "write to what a token protects: value, optional token lease", (*Server).putRegister},
	{"GET", "/v1/registers/{name...}", []string{"consistency"}, "its value and its latest writes", (*Server).getRegister},
	{"GET", "/v1/events", []string{"since", "prefix"}, "what happens, as it happens, until you hang up: since prefix", (*Server).events},
	{"GET", "/v1/status", nil, "this node's own view", (*Server).status},
	{"GET", "/v1/cluster", nil, "the members", (*Server).cluster},
	{"GET", "/v1/log", []string{"from", "limit"}, "this node's Raft log, decoded: from limit", (*Server).raftLog},
	{"GET", faultsPath, nil, "what is made to go wrong in this node, which must be a lab (--lab)", (*Server).faults},
	{"POST", faultsPath, nil, "make something go wrong for a while: fault duration_ms and what docs/FAULTS.md says", (*Server).beginFault},
	{"DELETE", faultsPath, nil, "heal all of it now", (*Server).healFaults},
	{"DELETE", faultsPath + "/{id...}", nil, "heal one fault now", (*Server).healFault},
	{"GET", "/livez", nil, "200 while the process runs", (*Server).livez},
	{"GET", "/readyz", nil, "200 while this node can serve", (*Server).readyz},
	{"GET", "/version", nil, "the version of this node", (*Server).version},
	{"GET", "/openapi.yaml", nil, "all of this in detail, for programs and people", (*Server).openAPI},
	{"GET", "/{$}", nil, "this page", (*Server).welcome},
}

// register hands the routes to ServeMux, grouped by path: were methods part of
// its patterns, it would answer the wrong ones itself, and not as a problem.
func (s *Server) register(routes []route) {
	s.routes = routes
	byPattern := make(map[string]map[string]route)
	for _, rt := range routes {
		if byPattern[rt.pattern] == nil {
			byPattern[rt.pattern] = make(map[string]route)
		}
		byPattern[rt.pattern][rt.method] = rt
	}
	for pattern, methods := range byPattern {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.serveRoute(w, r, methods)
		})
	}
	notFound := func(w http.ResponseWriter, r *http.Request) {
		s.writeProblem(w, &call{r: r}, fmt.Errorf("%w: there is no %s here; GET / lists the calls", errNotFound, clip(r.URL.Path)))
	}
	s.mux.HandleFunc("/", notFound)
	// Without these ServeMux would redirect them to the paths with a slash.
	s.mux.HandleFunc("/v1/requests", notFound)
	s.mux.HandleFunc("/v1/registers", notFound)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		// Set before anything is decided, for it must also bound net/http when
		// that reads on to the end of a body that no handler wanted. A recorder
		// in a test has no deadlines; every connection has.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
	}
	if err := s.admit(r); err != nil {
		s.writeProblem(w, &call{r: r}, err)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// admit refuses what must not even be routed.
func (s *Server) admit(r *http.Request) error {
	path := r.URL.EscapedPath()
	if !isClean(path) {
		field := "path"
		switch {
		case strings.HasPrefix(path, "/v1/leases/"), strings.HasPrefix(path, "/v1/registers/"):
			field = "name"
		case strings.HasPrefix(path, "/v1/requests/"):
			field = "request_id"
		}
		return &lease.FieldError{
			Field:  field,
			Detail: `has an empty, "." or ".." segment in the path; this server does not guess which other path is meant`,
		}
	}
	if err := s.origins.Check(r); err != nil {
		return fmt.Errorf("%w: a page of another origin may not change leases and registers (%v); send the request from a program, or from a page that this node serves", errForbidden, err)
	}
	return nil
}

// isClean says whether ServeMux takes the path as it is. It would redirect any
// other, and a redirect to another name is the last thing a lock client needs.
func isClean(path string) bool {
	rest, rooted := strings.CutPrefix(path, "/")
	if !rooted {
		return false
	}
	for more := true; more; {
		var segment string
		segment, rest, more = strings.Cut(rest, "/")
		if segment == "." || segment == ".." || segment == "" && more {
			return false
		}
	}
	return true
}

func (s *Server) serveRoute(w http.ResponseWriter, r *http.Request, methods map[string]route) {
	c := &call{r: r}
	defer c.free()
	a, err := s.run(w, c, methods)
	s.dropReply(c, a, err) // in a lab
	if err != nil {
		s.writeProblem(w, c, err)
		return
	}
	s.writeAnswer(w, c, a)
}

// run takes a call through its route. A panic ends that call only: leases of
// many clients depend on this process.
func (s *Server) run(w http.ResponseWriter, c *call, methods map[string]route) (a answer, err error) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler: // the agreed way to drop a connection
			panic(v)
		default:
			s.log.Error("panic while serving a request", "method", c.r.Method, "path", c.r.URL.Path,
				"panic", v, "stack", string(debug.Stack()))
			err = errPanic
		}
	}()
	method := c.r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http leaves the body out
	}
	rt, ok := methods[method]
	if !ok {
		return answer{}, &methodError{method: c.r.Method, allow: allowed(methods)}
	}
	if c.query, err = parseQuery(c.r.URL.RawQuery, rt.query); err != nil {
		return answer{}, err
	}
	if method != http.MethodGet {
		if err := c.readBody(w); err != nil {
			return answer{}, err
		}
	}
	return rt.serve(s, c)
}

// allowed is the Allow header of a path.
func allowed(methods map[string]route) string {
	list := slices.Collect(maps.Keys(methods))
	if slices.Contains(list, http.MethodGet) {
		list = append(list, http.MethodHead)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// welcome meets a person who opens the address of a node.
func (s *Server) welcome(*call) (answer, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "This is node %s of leasehold, a lease server. It understands:\n\n", s.backend.ID())
	for _, rt := range s.routes {
		pattern := strings.NewReplacer("...", "", "{$}", "").Replace(rt.pattern)
		fmt.Fprintf(&b, "  %-4s %-28s %s\n", rt.method, pattern, rt.help)
	}
	b.WriteString("\ndocs/API.md shows every call at work, with what it prints.\n")
	fmt.Fprintf(&b, "\nTry: curl -L http://%s/v1/acquire -d '{\"name\":\"demo\",\"holder\":\"me\",\"ttl_ms\":10000}'\n", s.backend.Status().Address)
	return answer{text: b.String()}, nil
}
