package work

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"leasehold/httpapi/wire"
)

// probeTimeout is more than any server may take to say that it cannot serve.
const probeTimeout = 4 * time.Second

// probe asks once a second for a lease of a fresh name, which nobody else wants: only
// the cluster can stand in the way. It asks one server, follows where that sends it,
// and does not try again: what a client makes up for by trying again is to be seen
// here. It lets the grants run out.
func probe(ctx context.Context, p *Player) error {
	bare := &http.Client{Transport: p.below, Timeout: probeTimeout}
	for n := 0; sleep(ctx, p.between(500*time.Millisecond, 1500*time.Millisecond)); n++ {
		ask := wire.AcquireRequest{
			Name: fmt.Sprintf("probe/%d", n), Holder: p.id, TTLMillis: p.cfg.MinTTL.Milliseconds(), RequestID: p.requestID(),
		}
		if err := p.probeOnce(ctx, bare, ask); err != nil {
			return err
		}
	}
	return nil
}

func (p *Player) probeOnce(ctx context.Context, bare *http.Client, ask wire.AcquireRequest) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	server := p.cfg.Servers[p.rand.IntN(len(p.cfg.Servers))]
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+server+"/v1/acquire", bytes.NewReader(body))
	if err != nil {
		return err
	}
	x := &exchange{path: "/v1/acquire", asked: body}
	ops, err := x.operations()
	if err != nil {
		return err
	}
	op := ops[0]
	op.Client, op.Probe, op.Call = p.id, true, p.cfg.Log.Now()
	resp, err := bare.Do(req)
	if err == nil {
		x.status, x.header, x.query = resp.StatusCode, resp.Header, resp.Request.URL.RawQuery
		x.told, err = io.ReadAll(resp.Body)
		resp.Body.Close()
	}
	op.Return = p.cfg.Log.Now()
	x.conclude(&op, 0, err)
	op.Probe = err == nil || ctx.Err() == nil // else we hung up ourselves
	p.cfg.Log.Add(op)
	return nil
}
