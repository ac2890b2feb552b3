// Package faults is the vocabulary of what can be made to go wrong: one JSON
// object for a line of a schedule, for POST /v1/faults, for the command line and
// for the page. docs/FAULTS.md is the same for people.
//
//	{"at_ms":4000,"node":"leader","fault":"cut","peers":["n2"],"direction":"both","duration_ms":2500}
//	└───── a Step has these ────┘ └──────────────────── a Fault ───────────────────┘
//
// Four nouns:
//
//   - a [Fault] is one thing that goes wrong, for a while;
//   - its [Kind] says what, and which other fields it has: the table is in kinds.go;
//   - a [Step] is a fault at a time, on a node;
//   - a [Schedule] is a list of steps. It can be written down and played again.
//
// The package only says what is meant. What is on in a node is kept by package
// faults/lab, and done by those who own what fails: the links by transport, disk and
// clocks by cluster, answers by httpapi.
//
// Reading is as strict as that of the API: a field that is unknown, given twice,
// null, of another type, out of bounds, or not one of the kind's is refused by name.
package faults
