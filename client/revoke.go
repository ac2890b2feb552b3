package client

import (
	"context"

	"leasehold/httpapi/wire"
)

// Revoke breaks the grant of a token, whoever holds it. To revoke again what was
// revoked is a success, with Already set. Errors besides the common ones:
// [lease.ErrLost] if the grant is not live and was not revoked.
func (api *API) Revoke(ctx context.Context, revoke wire.RevokeRequest) (wire.Revoke, error) {
	r, err := post("/v1/revoke", revoke, revoke.Name, revoke.Reason)
	if err != nil {
		return wire.Revoke{}, err
	}
	return call[wire.Revoke](ctx, api, r)
}
