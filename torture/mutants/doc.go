// Package mutants breaks leasehold on purpose, to see whether the simulation
// notices. Each mutant is a fault that some lock or lease service once had, or
// nearly had, and names the property that it should break.
//
//	testdata/M04-….txt          edits of the sources
//	        │ Read
//	        ▼
//	     Mutant ──▶ Overlay ──▶ go test -overlay … ./torture/sim ──▶ which property
//	                            (the sources stay as they are)         was violated?
//
// A mutant is a text, not code behind a switch: nothing of it can ever be in a
// program that is shipped. An edit that no longer fits the sources fails a test.
package mutants
