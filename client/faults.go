package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"leasehold/httpapi/wire"
)

// The calls of this file are about the faults of one server, which must be a lab
// (leasehold serve --lab). Each is made once, and only to this server. A server that
// is no lab refuses them with the code forbidden.

// Faults lists what is made to go wrong in a server.
func (api *API) Faults(ctx context.Context, server string) (wire.Faults, error) {
	return ask[wire.Faults](ctx, api, server, get("/v1/faults", nil))
}

// BeginFault makes something go wrong in a server, until its time is over or it is
// healed.
func (api *API) BeginFault(ctx context.Context, server string, fault wire.FaultRequest) (wire.Fault, error) {
	body, err := json.Marshal(fault)
	if err != nil {
		return wire.Fault{}, fmt.Errorf("encode a fault: %w", err)
	}
	return ask[wire.Fault](ctx, api, server, request{method: http.MethodPost, path: "/v1/faults", body: body})
}

// HealFault ends one fault of a server, or all if the id is empty, and gives those
// that it has ended.
func (api *API) HealFault(ctx context.Context, server, id string) (wire.Faults, error) {
	path := "/v1/faults"
	if id != "" {
		path += "/" + url.PathEscape(id)
	}
	return ask[wire.Faults](ctx, api, server, request{method: http.MethodDelete, path: path})
}
