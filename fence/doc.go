// Package fence refuses writers that have been replaced. It is for the resource
// that a lease protects, and needs nothing of leasehold but the tokens.
//
// A holder that was paused wakes up and writes, sure that it still holds its
// lease. It cannot know better, and no lease service can stop it. The resource
// can: each write brings the fencing token of its grant, tokens rise with each
// grant, and the resource refuses one that is lower than the highest it has seen.
//
// Four nouns:
//
//   - a resource is what must not be written by two holders at a time, named by
//     a string;
//   - a token is the number of a grant;
//   - a mark is the highest token that a resource has seen;
//   - a [Guard] keeps the marks of many resources in memory.
//
// # Check-then-write is not enough
//
// To compare and then to write are two steps, and a pause fits between them:
//
//	token 33                   resource                    token 34
//	check 33 ────────────────▶ 33 ≥ 33: go on
//	  │ (paused)               34 ≥ 33: go on ◀──────────── check 34
//	  │                        value := "by 34" ◀────────── write
//	write ───────────────────▶ value := "by 33"             ← the older one lasts
//
// Both checks were right when they were made. What is needed is that nothing
// newer comes between the check and the end of the write. [Guard.Do] and the
// [Middleware] give that for writes that pass through one process:
//
//	token 33                   resource                    token 34
//	Do 33 ───────────────────▶ 33 ≥ 33: go on
//	  │ (paused)               34 ≥ 33: mark := 34 ◀─────── Do 34
//	  │                        a 33 that comes now is refused;  │ waits until
//	write ───────────────────▶ value := "by 33"                 │ no older write
//	done ────────────────────▶ no older one is under way ─────▶ │ is under way
//	                           value := "by 34" ◀────────── write
//
// Writes with the same token run side by side: they are of one holder, which
// knows their order. A newer token cancels the context of the older write, so that
// a holder that was paused in the middle does not keep its successor waiting.
//
// # What it does not do
//
// A Guard forgets when its process ends; until a resource has seen its first
// token again, it takes any. Keep the token beside the data, and give it to
// [Guard.Check] at the start. Two processes with a Guard each do not know of each
// other's marks. If the data is in a database, use package sqlfence, which keeps
// the mark in the transaction that writes.
//
// A write has to be over when the function or the handler returns. One that goes on
// in a goroutine, or behind an http.TimeoutHandler inside the middleware, is
// beyond all guarding.
//
// Tokens of two clusters cannot be compared: one that was created anew counts
// from the beginning. So a token is given together with the id of its cluster, and
// a resource can pin that id ([Config].ClusterID).
//
// Anybody who can send a token can send the highest one, and close a resource to
// all others. Fencing is for writers that mean well.
package fence
