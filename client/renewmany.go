package client

import (
	"context"
	"fmt"
	"net/http"

	"leasehold/httpapi/wire"
)

// RenewMany renews up to 512 grants of one holder, of leases with distinct names,
// by one entry of the log. There is a result for each of them, in their order: a
// renewal that is refused is no error of the call. Servers of a version before this
// call answer 404.
func (api *API) RenewMany(ctx context.Context, many wire.RenewManyRequest) (wire.RenewMany, error) {
	texts := []string{many.Holder}
	for _, one := range many.Renewals {
		texts = append(texts, one.Name)
	}
	r, err := post("/v1/renew-many", many, texts...)
	if err != nil {
		return wire.RenewMany{}, err
	}
	answer, err := call[wire.RenewMany](ctx, api, r)
	if err != nil {
		return wire.RenewMany{}, err
	}
	same := len(answer.Results) == len(many.Renewals)
	for i := 0; same && i < len(many.Renewals); i++ {
		same = answer.Results[i].Name == many.Renewals[i].Name && answer.Results[i].Token == many.Renewals[i].Token
	}
	if !same {
		return wire.RenewMany{}, unexpected(api.Leader(), http.StatusOK, fmt.Sprintf("not one result for each of %d renewals", len(many.Renewals)))
	}
	return answer, nil
}
