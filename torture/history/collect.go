package history

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

// Page is a part of a node's log. The node has applied everything up to Applied,
// and nothing beyond it may be relied on: a log also holds entries that are not
// committed and may yet be replaced.
type Page struct {
	First   uint64 // that the node still has, 0 if its log is empty
	Applied uint64 // asked of the node before its log
	Entries []Entry
}

// Fetch reads up to limit entries from an index on. What it must not do is read
// Applied after the entries: what was not committed then may be by now, as
// another entry.
type Fetch func(ctx context.Context, from uint64, limit int) (Page, error)

// Collector follows the log of one node and records each committed entry once.
// It has to be called often enough: snapshots cut off the beginning of a log. What
// one node has lost another may still have, so it is well to have a collector for
// each node; [History.Merge] puts their findings together.
type Collector struct {
	Node  string
	Fetch Fetch
	To    *Recorder
	// Lost counts the entries that were cut off before they could be read.
	Lost uint64

	next uint64
}

// pageSize is the largest that GET /v1/log allows.
const pageSize = 1000

// Collect reads what has been committed since the last call. An error is no
// harm: the next call goes on where this one stopped.
func (c *Collector) Collect(ctx context.Context) error {
	c.next = max(c.next, 1)
	for {
		page, err := c.Fetch(ctx, c.next, pageSize)
		if err != nil {
			return err
		}
		if page.First > c.next && page.Applied >= c.next {
			lost := min(page.First, page.Applied+1)
			c.Lost += lost - c.next
			c.next = lost
		}
		progress := false
		for _, e := range page.Entries {
			if e.Index != c.next || e.Index > page.Applied {
				continue
			}
			e.Node = c.Node
			c.To.Add(e)
			c.next++
			progress = true
		}
		if !progress || c.next > page.Applied {
			return nil
		}
	}
}

// OverHTTP reads the log of the node at a base URL such as http://127.0.0.1:8001.
func OverHTTP(client *http.Client, base string) Fetch {
	return func(ctx context.Context, from uint64, limit int) (Page, error) {
		var status wire.Status
		if err := get(ctx, client, base+"/v1/status", &status); err != nil {
			return Page{}, err
		}
		var log wire.Log
		if err := get(ctx, client, fmt.Sprintf("%s/v1/log?from=%d&limit=%d", base, from, limit), &log); err != nil {
			return Page{}, err
		}
		page := Page{First: log.First, Applied: status.AppliedIndex}
		for _, e := range log.Entries {
			entry, err := FromWire(e)
			if err != nil {
				return Page{}, err
			}
			page.Entries = append(page.Entries, entry)
		}
		return page, nil
	}
}

func get(ctx context.Context, client *http.Client, url string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// FromWire turns an entry of GET /v1/log back into what stands in the log.
func FromWire(w wire.LogEntry) (Entry, error) {
	e := Entry{Index: w.Index, Term: w.Term, Kind: w.Kind}
	if w.At != "" {
		at, err := time.Parse(time.RFC3339, w.At)
		if err != nil {
			return e, fmt.Errorf("entry %d: %w", w.Index, err)
		}
		e.At = at.UnixMilli()
	}
	value := ""
	if w.Value != nil {
		value = *w.Value
	}
	switch w.Kind {
	case "lead":
		lead := lease.Lead{ClusterID: w.ClusterID}
		if w.Node != nil {
			lead.Node, lead.Address = w.Node.ID, w.Node.Address
		}
		e.Command = lead
	case "acquire":
		e.Command = lease.Acquire{
			Name: w.Name, Holder: w.Holder, RequestID: w.RequestID, Value: value, Reclaim: w.Reclaim,
			TTL: millis(w.TTLMillis), Wait: millis(w.WaitMillis), LockDelay: millis(w.LockDelayMillis),
		}
	case "renew":
		e.Command = lease.Renew{Name: w.Name, Holder: w.Holder, Token: w.Token, TTL: millis(w.TTLMillis), Value: w.Value}
	case "renew-many":
		many := lease.RenewMany{Holder: w.Holder}
		for _, one := range w.Renewals {
			many.Renewals = append(many.Renewals, lease.Renewal{Name: one.Name, Token: one.Token})
		}
		e.Command = many
	case "release":
		e.Command = lease.Release{Name: w.Name, Holder: w.Holder, Token: w.Token}
	case "expire":
		e.Command = lease.Expire{Name: w.Name, Token: w.Token, Renewal: w.Renewal, Term: w.OfTerm}
	case "reopen":
		e.Command = lease.Reopen{Name: w.Name, Token: w.Token}
	case "abandon":
		e.Command = lease.Abandon{Name: w.Name, Holder: w.Holder, RequestID: w.RequestID, Place: w.Place, Reason: lease.Reason(w.Reason)}
	case "revoke":
		e.Command = lease.Revoke{Name: w.Name, Token: w.Token, Reason: w.Reason}
	case "write":
		e.Command = lease.Write{Register: w.Register, Value: value, Token: w.Token, Lease: w.Lease}
	case "unknown":
		return e, fmt.Errorf("entry %d holds a command that the node does not know", w.Index)
	}
	return e, nil
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
