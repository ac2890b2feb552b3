package cli

import (
	"cmp"
	"context"
	"errors"
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
	nodes := survey(c.Context, p.addresses(a), cl.Status)
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
	errs := []error{context.Cause(c.Context)}
	for _, n := range nodes {
		errs = append(errs, n.err)
	}
	return &silentCluster{errors.Join(errs...)}
}

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
	}
	for _, note := range notes {
		t.row(note)
	}
	return t.flush()
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
