// Package httpapi is the HTTP face of a node: it turns requests into the
// commands and queries of package cluster, and what comes of them into JSON.
//
//	request ─▶ Server ─▶ route ─▶ call ─▶ handler ─▶ Backend
//	            │ path      │ method  query, body      │
//	            │ origin    │                          ▼
//	response ◀─ one writer ◀──────────────── answer or error
//
// Five nouns:
//
//   - a [Backend] is the node behind the API, a *cluster.Node;
//   - a route is a path and a method, with the query parameters it knows;
//   - a call is one request whose query is parsed and whose body is read;
//   - a stream is an answer that goes on (GET /v1/events), guarded so that a
//     reader who does not read costs nothing but its own connection;
//   - a problem is what every error becomes (RFC 9457). The table in problem.go
//     is the only place where errors meet codes and statuses.
//
// Handlers never see the connection. They return an answer or an error, and one
// writer sends it, so the headers always come before the body, a panic can
// still become a proper 500, and no error is worded twice.
//
// Input is strict, because a lease that was granted on a misread request is
// worse than a refusal: what is unknown, repeated, of the wrong type or out of
// bounds is refused by name. Nothing is clamped, defaulted or rounded. The
// leniency of two standard packages is avoided on purpose: encoding/json takes
// other spellings of a field's name and the last of two duplicates, and replaces
// broken text; ServeMux redirects a path that it would rather see spelled
// otherwise, and so would turn one lease's name into another's.
package httpapi
