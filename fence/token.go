package fence

import (
	"context"
	"fmt"
	"strconv"
)

// ParseToken reads a token as it stands in a header: decimal digits, no sign, no
// leading zero, 1 … 2⁶⁴-1. Its error wraps [ErrToken].
func ParseToken(s string) (uint64, error) {
	token, err := strconv.ParseUint(s, 10, 64)
	if err != nil || s[0] == '0' {
		return 0, fmt.Errorf("%w: %q; it is a decimal number from 1 to 18446744073709551615", ErrToken, clip(s))
	}
	return token, nil
}

// clip keeps what somebody sent from filling a message.
func clip(s string) string {
	if len(s) > 64 {
		return s[:64] + "…"
	}
	return s
}

type tokenKey struct{}

// withToken gives a context that carries a token.
func withToken(ctx context.Context, token uint64) context.Context {
	return context.WithValue(ctx, tokenKey{}, token)
}

// TokenFrom tells the token that the middleware has admitted for a request, so
// that its handler can hand it on, for example to a database.
func TokenFrom(ctx context.Context) (token uint64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(uint64)
	return token, ok
}
