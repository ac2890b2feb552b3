package fence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"leasehold/fence"
)

// A file that two holders could write: each write brings its token.
func ExampleGuard() {
	var guard fence.Guard
	ctx := context.Background()
	file := ""
	write := func(token uint64, text string) error {
		return guard.Do(ctx, "reports/today", token, func(context.Context) error {
			file = text // no older write is under way, and none comes later
			return nil
		})
	}

	fmt.Println(write(33, "by alice"))
	fmt.Println(write(34, "by bob"))
	err := write(33, "by alice, who was paused")
	fmt.Println(err)
	if stale, ok := errors.AsType[*fence.StaleError](err); ok {
		fmt.Println("overtaken by", stale.Highest)
	}
	fmt.Println(file)
	// Output:
	// <nil>
	// <nil>
	// stale token: "reports/today" has seen token 34, this is 33
	// overtaken by 34
	// by bob
}

// The mark is in memory. At the start it is loaded from beside the data.
func ExampleGuard_Check() {
	stored := uint64(34) // as it was written with the last accepted write

	var guard fence.Guard
	if err := guard.Check("reports/today", stored); err != nil {
		panic(err)
	}
	fmt.Println(guard.Check("reports/today", 33))
	// Output: stale token: "reports/today" has seen token 34, this is 33
}

// A resource server that takes documents. The middleware is inside of the
// ServeMux, where PathValue is known.
func ExampleMiddleware() {
	config := fence.DefaultConfig()
	config.Resource = func(r *http.Request) string { return r.PathValue("name") }
	fenced, err := fence.Middleware(config)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /documents/{name}", fenced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, _ := fence.TokenFrom(r.Context())
		fmt.Fprintln(w, "written with token", token)
	})))

	for _, token := range []string{"33", "34", "33", ""} {
		r := httptest.NewRequest(http.MethodPut, "/documents/today", nil)
		if token != "" {
			r.Header.Set(fence.TokenHeader, token)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(w.Code, http.StatusText(w.Code))
	}
	// Output:
	// 200 OK
	// 200 OK
	// 412 Precondition Failed
	// 428 Precondition Required
}
