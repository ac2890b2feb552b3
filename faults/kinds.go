package faults

import (
	"slices"
	"strings"
)

// Kind says what goes wrong.
type Kind string

// What goes wrong on a link, which is one direction between this node and a peer.
const (
	// Cut: bytes, ends of connections and new connections stall, and flow again after.
	Cut Kind = "cut"
	// Jam: what is written to the connections that there are is kept back, and comes
	// at once at the end. New connections pass, and so overtake.
	Jam Kind = "jam"
	// Delay: all that is sent comes later, in its order.
	Delay Kind = "delay"
	// Loss: some of what is sent is lost and, as TCP has it, sent again later.
	Loss Kind = "loss"
)

// What goes wrong in front of clients. Link faults with the peer [Clients] do so, too.
const (
	// DropReply: a request is carried out, and its connection closed without an answer.
	DropReply Kind = "drop_reply"
)

// What goes wrong with the disk.
const (
	// SlowFsync: every write of the log, of term and vote takes longer.
	SlowFsync Kind = "slow_fsync"
	// DiskFull: such writes fail, for want of space.
	DiskFull Kind = "disk_full"
)

// What goes wrong with clocks.
const (
	// ClockRate: the lease clock runs too fast or too slowly.
	ClockRate Kind = "clock_rate"
	// ClockStall: the lease clock stands still.
	ClockStall Kind = "clock_stall"
	// WallShift: the wall clock is wrong.
	WallShift Kind = "wall_shift"
)

// What happens to a whole process. These stand in schedules only, for a node cannot
// do them to itself.
const (
	// Kill is SIGKILL, and a start at the end.
	Kill Kind = "kill"
	// Pause is SIGSTOP, and SIGCONT at the end.
	Pause Kind = "pause"
	// Stop is SIGTERM, and a start at the end.
	Stop Kind = "stop"
)

// Clients stands among the peers of a fault for everybody who speaks HTTP.
const Clients = "clients"

// Direction of a link, as seen from the node that has the fault.
type Direction string

// The directions. The empty Direction is Both.
const (
	Out  Direction = "out" // what this node sends
	In   Direction = "in"  // what it receives
	Both Direction = "both"
)

// form is what a fault of some kind looks like.
type form struct {
	kind Kind
	// fields that it takes besides duration_ms. It must have the first required ones.
	fields   []string
	required int
	percent  bounds // of its percent, if it takes one
}

var forms = []form{
	{kind: Cut, fields: []string{"peers", "direction"}},
	{kind: Jam, fields: []string{"peers", "direction"}},
	{kind: Delay, fields: []string{"delay_ms", "jitter_ms", "peers", "direction"}, required: 1},
	{kind: Loss, fields: []string{"percent", "peers", "direction"}, required: 1, percent: bounds{1, 100}},
	{kind: DropReply, fields: []string{"count", "path"}, required: 1},
	{kind: SlowFsync, fields: []string{"delay_ms"}, required: 1},
	{kind: DiskFull},
	{kind: ClockRate, fields: []string{"percent"}, required: 1, percent: bounds{50, 200}},
	{kind: ClockStall},
	{kind: WallShift, fields: []string{"shift_ms"}, required: 1},
	{kind: Kill},
	{kind: Pause},
	{kind: Stop},
}

func formOf(k Kind) *form {
	i := slices.IndexFunc(forms, func(f form) bool { return f.kind == k })
	if i < 0 {
		return nil
	}
	return &forms[i]
}

// Kinds lists all of them.
func Kinds() []Kind {
	var all []Kind
	for _, f := range forms {
		all = append(all, f.kind)
	}
	return all
}

// NodeKinds lists those that a node can have, which is all but those of a process.
func NodeKinds() []Kind { return slices.DeleteFunc(Kinds(), Kind.OfProcess) }

// Fields are the names of the fields that a fault of this kind may have besides
// fault and duration_ms, and how many of the first it must have.
func (k Kind) Fields() (names []string, required int) {
	if f := formOf(k); f != nil {
		return slices.Clone(f.fields), f.required
	}
	return nil, 0
}

// OfLink says whether it is a fault of links.
func (k Kind) OfLink() bool { return k == Cut || k == Jam || k == Delay || k == Loss }

// OfProcess says whether it happens to a whole process.
func (k Kind) OfProcess() bool { return k == Kill || k == Pause || k == Stop }

func kindList(kinds []Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
