package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"

	"leasehold/fence"
)

const (
	// keyHeader names a request. One that is sent again with the same key counts once.
	keyHeader = "Idempotency-Key"
	// passedOnBy is in a request that comes from another copy, with its name.
	passedOnBy = "Leader-App-Passed-On-By"
	// passOnTimeout is how long another copy has to answer.
	passOnTimeout = 500 * time.Millisecond
)

// answer to a request.
type answer struct {
	Entry
	Repeated bool   `json:"repeated"`           // an earlier request with this key has made it
	Error    string `json:"error,omitempty"`    // why there is none
	Happened string `json:"happened,omitempty"` // with an error: no, or unknown
}

func (a *app) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /entries", a.ifActive(a.addEntry))
	mux.HandleFunc("GET /total", a.ifActive(a.readTotal))
	mux.HandleFunc("GET /leader", func(w http.ResponseWriter, _ *http.Request) {
		t, leader := a.now()
		write(w, http.StatusOK, map[string]any{"copy": a.name, "active": t != nil, "leader": leader})
	})
	return mux
}

// ifActive passes requests to the copy that is active, this one or another.
func (a *app) ifActive(handle func(http.ResponseWriter, *http.Request, *term)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t, leader := a.now()
		by := r.Header.Get(passedOnBy)
		switch {
		case t != nil && t.enter():
			defer t.leave()
			handle(w, r, t)
		case by != "":
			// Two copies that each believe in the other must not pass it on for ever.
			notNow(w, fmt.Sprintf("%s is not active, though %s took it for that", a.name, by))
		case leader == "" || leader == a.url:
			notNow(w, "no copy is active")
		default:
			a.passOn(w, r, leader)
		}
	}
}

// addEntry adds an amount to the total.
func (a *app) addEntry(w http.ResponseWriter, r *http.Request, t *term) {
	amount, err := strconv.ParseInt(r.URL.Query().Get("amount"), 10, 32)
	key := r.Header.Get(keyHeader)
	if err != nil || key == "" {
		write(w, http.StatusBadRequest, answer{Error: "wanted: ?amount=NUMBER and the header " + keyHeader, Happened: "no"})
		return
	}
	time.Sleep(a.work) // what there is to do before the write; a pause may come here
	e, repeated, err := t.add(r.Context(), key, amount)
	switch {
	case errors.Is(err, errKey):
		write(w, http.StatusConflict, answer{Error: err.Error(), Happened: "no"})
	case err != nil:
		a.fails(w, t, err)
	default:
		write(w, http.StatusOK, answer{Entry: e, Repeated: repeated})
	}
}

func (a *app) readTotal(w http.ResponseWriter, r *http.Request, t *term) {
	total, err := t.read(r.Context())
	if err != nil {
		a.fails(w, t, err)
		return
	}
	write(w, http.StatusOK, map[string]any{"total": total, "token": t.token, "leader": a.name})
}

// fails answers what went wrong in the journal.
func (a *app) fails(w http.ResponseWriter, t *term, err error) {
	if errors.Is(err, fence.ErrStale) {
		a.tell(event{Kind: refused, Token: t.token, Why: err.Error()})
		notNow(w, "another copy has taken over: "+err.Error())
		return
	}
	nobodyKnows(w, err)
}

// passOn sends a request to another copy, and its answer back.
func (a *app) passOn(w http.ResponseWriter, r *http.Request, leader string) {
	to, err := url.Parse(leader)
	if err != nil { // somebody else has published a value
		notNow(w, err.Error())
		return
	}
	proxy := httputil.ReverseProxy{
		Transport: a.proxy,
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.SetXForwarded()
			p.Out.Header.Set(passedOnBy, a.name)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			if broken, ok := errors.AsType[*net.OpError](err); ok && broken.Op == "dial" {
				notNow(w, "the active copy cannot be reached: "+err.Error())
				return
			}
			nobodyKnows(w, err) // it was sent
		},
	}
	proxy.ServeHTTP(w, r)
}

// notNow: nothing has happened, and a later request may succeed.
func notNow(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", "1")
	write(w, http.StatusServiceUnavailable, answer{Error: why, Happened: "no"})
}

// nobodyKnows: it may have happened. To send it again with the same key is safe.
func nobodyKnows(w http.ResponseWriter, err error) {
	w.Header().Set("Retry-After", "1")
	write(w, http.StatusGatewayTimeout, answer{Error: err.Error(), Happened: "unknown"})
}

func write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}
