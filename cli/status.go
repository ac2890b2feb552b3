package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	urfave "github.com/urfave/cli/v2"

	"leasehold/client"
	"leasehold/httpapi/wire"
)

func (p *program) statusCommand() *urfave.Command {
	a := newAccess()
	return &urfave.Command{
		Name:      "status",
		Usage:     "show every node as it sees itself",
		UsageText: "leasehold status [--server HOST:PORT,…]",
		Description: "Asks the given nodes and the members they know of. A node that does not answer has a row too.\n" +
			"Nodes that have applied the same index have the same hash. Exits 0 if any node answers.",
		Flags:  a.flags(),
		Action: func(c *urfave.Context) error { return p.status(c, a) },
	}
}

func (p *program) status(c *urfave.Context, a *access) error {
	if err := noArguments(c); err != nil {
		return err
	}
	cl, err := p.client(c, a)
	if err != nil {
		return err
	}
	defer cl.Close()
	nodes := p.askNodes(c.Context, a, cl)
	print := p.printNodes
	if a.json {
		print = p.printNodesJSON
	}
	if err := print(nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		if n.err == nil {
			return nil
		}
	}
	return silence(c.Context, nodes)
}

// silence is the error if no node has answered.
func silence(ctx context.Context, nodes []node) error {
	errs := []error{context.Cause(ctx)}
	for _, n := range nodes {
		errs = append(errs, n.err)
	}
	return &silentCluster{errors.Join(errs...)}
}

// remarkAfter is when status says that it is still waiting.
const remarkAfter = 500 * time.Millisecond

// askNodes makes a survey, and says so if a node makes us wait.
func (p *program) askNodes(ctx context.Context, a *access, cl *client.API) []node {
	limit := min(a.timeout.duration(), client.DefaultTryTimeout)
	ask := func(ctx context.Context, server string) (wire.Status, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, &noAnswer{server, limit})
		defer cancel()
		status, err := cl.Status(ctx, server)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = context.Cause(ctx)
		}
		return status, err
	}
	answers := make(chan []node, 1)
	go func() { answers <- survey(ctx, p.addresses(a), ask) }()
	select {
	case nodes := <-answers:
		return nodes
	case <-time.After(remarkAfter):
		fmt.Fprintf(p.stderr, "not every node has answered yet; waiting up to %v\n", limit)
		return <-answers
	}
}

// noAnswer: a node was silent for all the time that it had.
type noAnswer struct {
	server string
	limit  time.Duration
}

func (e *noAnswer) Error() string {
	return fmt.Sprintf("%s: no answer in %v", strings.TrimPrefix(e.server, "http://"), e.limit)
}

func (e *noAnswer) Unwrap() error { return context.DeadlineExceeded }

// silentCluster: no node answered. The table has said so for each.
type silentCluster struct{ cause error }

func (e *silentCluster) Error() string   { return "unreachable: no node answers" }
func (e *silentCluster) Unwrap() []error { return []error{client.ErrUnavailable, e.cause} }

// node is a row of the table.
type node struct {
	wire.Node // as it names itself; without an answer, as others name it
	status    wire.Status
	err       error // it did not answer
}

// survey asks the servers and whatever members they name, each once, in waves:
// those that an answer names are asked in the next.
func survey(ctx context.Context, servers []string, ask func(context.Context, string) (wire.Status, error)) []node {
	found := make(map[string]node) // by address
	names := make(map[string]string)
	asked := make(map[string]bool) // also under addresses that a node does not call itself by
	for wave := servers; len(wave) > 0; {
		for _, n := range askAll(ctx, wave, ask) {
			found[n.Address] = n
		}
		wave = nil
		for _, n := range found {
			for _, member := range membersKnownTo(n.status) {
				names[member.Address] = member.ID
				_, answered := found[member.Address]
				if !answered && !asked[member.Address] {
					asked[member.Address] = true
					wave = append(wave, member.Address)
				}
			}
		}
	}
	var nodes []node
	for _, n := range found {
		if n.err != nil {
			n.ID = names[n.Address]
		}
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b node) int {
		// Those whose name nobody knows come last.
		return cmp.Or(cmp.Compare(min(len(b.ID), 1), min(len(a.ID), 1)),
			strings.Compare(a.ID, b.ID), strings.Compare(a.Address, b.Address))
	})
	return nodes
}

func askAll(ctx context.Context, servers []string, ask func(context.Context, string) (wire.Status, error)) []node {
	nodes := make([]node, len(servers))
	var wg sync.WaitGroup
	for i, server := range servers {
		wg.Go(func() {
			status, err := ask(ctx, server)
			n := node{status: status, err: err}
			n.ID, n.Address = status.ID, status.Address
			if err != nil {
				// As members are named, or it would be taken for another node.
				n.Address = strings.TrimSuffix(strings.TrimPrefix(server, "http://"), "/")
			}
			nodes[i] = n
		})
	}
	wg.Wait()
	return nodes
}

func membersKnownTo(s wire.Status) []wire.Node {
	var members []wire.Node
	if s.Leader != nil {
		members = append(members, *s.Leader)
	}
	for _, peer := range s.Peers {
		members = append(members, peer.Node)
	}
	return slices.DeleteFunc(members, func(n wire.Node) bool { return n.Address == "" })
}

func (p *program) printNodes(nodes []node) error {
	t := newTable(p.stdout)
	t.row("ID", "ADDRESS", "ROLE", "TERM", "LEADER", "COMMIT", "APPLIED", "SNAPSHOT", "HASH", "LAST CONTACT", "LEASES")
	var notes []string
	for _, n := range nodes {
		id := cmp.Or(n.ID, "?")
		if n.err != nil {
			t.row(id, n.Address, "unreachable", "-", "-", "-", "-", "-", "-", "-", "-")
			notes = append(notes, why(n.err))
			continue
		}
		s := n.status
		leader, contact := "none", "never"
		if s.Leader != nil {
			leader = s.Leader.ID
		}
		if s.LastContactMillis != nil {
			contact = span(time.Duration(*s.LastContactMillis) * time.Millisecond)
		}
		t.row(id, n.Address, s.Role, number(s.Term), leader, number(s.CommitIndex), number(s.AppliedIndex),
			number(s.SnapshotIndex), s.StateHash, contact, number(s.Leases))
		if s.Waiting != "" {
			notes = append(notes, id+" is waiting: "+s.Waiting)
		}
		notes = append(notes, labNotes(s)...)
	}
	for _, note := range append(notes, replacedLeaders(nodes)...) {
		t.row(note)
	}
	return t.flush()
}

// labNotes says of a lab what is made to go wrong in it.
func labNotes(s wire.Status) (notes []string) {
	if s.Lab && len(s.Faults) == 0 {
		return []string{s.ID + " is a lab (--lab), without faults at the moment"}
	}
	for _, f := range s.Faults {
		left := span(time.Duration(f.RemainingMillis) * time.Millisecond)
		notes = append(notes, fmt.Sprintf("%s is a lab (--lab) with the fault %s: %s, %s left", s.ID, f.ID, f.Fault, left))
	}
	return notes
}

// replacedLeaders says which nodes claim to lead although a later leader is known.
// It is in order: one that was frozen or cut off learns of it in a moment.
func replacedLeaders(nodes []node) (remarks []string) {
	var leaders []node
	for _, n := range nodes {
		if n.err == nil && n.status.Role == "leader" {
			leaders = append(leaders, n)
		}
	}
	slices.SortStableFunc(leaders, func(a, b node) int { return cmp.Compare(b.status.Term, a.status.Term) })
	for i, old := range leaders {
		if latest := leaders[0]; i > 0 && old.status.Term < latest.status.Term {
			remarks = append(remarks, fmt.Sprintf("%s was replaced by %s, which leads in term %d, and has not heard of it yet; it can grant nothing",
				old.ID, latest.ID, latest.status.Term))
		}
	}
	return remarks
}

// unreachableNode stands in the JSON output for a node that did not answer.
type unreachableNode struct {
	ID      string `json:"id,omitempty"`
	Address string `json:"address"`
	Role    string `json:"role"` // "unreachable"
	Detail  string `json:"detail"`
}

func (p *program) printNodesJSON(nodes []node) error {
	for _, n := range nodes {
		var object any = n.status
		if n.err != nil {
			object = unreachableNode{n.ID, n.Address, "unreachable", why(n.err)}
		}
		if err := p.printJSON(object); err != nil {
			return err
		}
	}
	return nil
}

// why gives the reason of an error without its code.
func why(err error) string {
	var problem *client.Error
	if errors.As(err, &problem) {
		return problem.Detail
	}
	return err.Error()
}
