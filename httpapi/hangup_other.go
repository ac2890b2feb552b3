//go:build !unix

package httpapi

import "net/http"

// hasHungUp leaves it to the context of the request where there is no way to ask
// the kernel.
func hasHungUp(*http.Request) bool { return false }
