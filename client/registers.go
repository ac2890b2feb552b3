package client

import (
	"context"
	"net/http"

	"leasehold/httpapi/wire"
)

// PutRegister writes to a register. Errors besides the common ones:
// [lease.ErrStaleToken], with the HighestToken and the reason in the [Error], if
// the register has seen a higher token, or the token is not the live one of the
// lease that the write names.
//
// A write is never sent again after a try whose outcome is unknown: the error is
// then [ErrUnknown] at once. Not even the same value with the same token would be
// safe. Another write of the same holder, or one without a token, may have come in
// between, and the second try would undo it; and a second try that is refused
// does not tell what came of the first. Read the register to learn it, or write
// again if no one else can have written. Tries that had no effect are repeated.
func (api *API) PutRegister(ctx context.Context, name string, write wire.WriteRequest) (wire.Write, error) {
	r, err := post(namePath("/v1/registers/", name), write, write.Value, write.Lease)
	if err != nil {
		return wire.Write{}, err
	}
	r.method, r.once = http.MethodPut, true
	return call[wire.Write](ctx, api, r)
}

// Register reads a register. One that was never written to is no error.
func (api *API) Register(ctx context.Context, name string, consistency Consistency) (wire.Register, error) {
	r := get(namePath("/v1/registers/", name), consistency.query())
	r.leaderOnly = consistency.leaderOnly()
	return call[wire.Register](ctx, api, r)
}
