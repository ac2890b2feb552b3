package check_test

import (
	"strconv"
	"time"

	"leasehold/torture/history"
)

// simClient does one thing after another.
type simClient struct {
	w      *simulation
	name   string
	tokens map[string]uint64 // leases that it believes it holds
	ttls   map[string]time.Duration
	count  int
}

func (c *simClient) again(history.Operation) {
	if !c.w.over() {
		c.w.after(c.w.between(5, c.w.pace), c.act)
	}
}

func (c *simClient) act() {
	name := simNames[c.w.rng.IntN(len(simNames))]
	op := history.Operation{Client: c.name, Name: name, Holder: c.name}
	token, holds := c.tokens[name]
	if !holds {
		switch {
		case c.w.chance(15):
			op.Kind = history.Get
			c.w.call(op, false, c.again)
		case c.w.chance(15):
			op.Kind, op.Session = history.StaleGet, c.name
			c.w.call(op, false, c.again)
		default:
			c.acquire(op)
		}
		return
	}
	op.Token = token
	switch pick := c.w.rng.IntN(100); {
	case pick < 35:
		op.Kind = history.Renew
		if c.w.chance(10) {
			op.TTL = c.w.between(200, 400).Truncate(time.Millisecond)
		}
		c.w.call(op, false, c.renewed)
	case pick < 45:
		op.Kind, op.Batch = history.RenewMany, "b"
		c.w.call(op, false, c.renewed)
	case pick < 60:
		op.Kind = history.Release
		delete(c.tokens, name)
		c.w.call(op, false, c.released)
	case pick < 80:
		c.write(op)
	case pick < 83:
		op.Kind, op.Reason = history.Revoke, "test"
		c.w.call(op, false, c.again)
	case c.w.busy && c.w.chance(80):
		c.again(op)
	default: // a pause in which the lease runs out
		c.w.after(c.w.between(300, 1200), c.act)
	}
}

func (c *simClient) acquire(op history.Operation) {
	c.count++
	op.Kind, op.RequestID = history.Acquire, strconv.Itoa(c.count)
	op.TTL = c.w.between(200, 900).Truncate(time.Millisecond)
	if !c.w.busy && c.w.chance(50) || c.w.chance(3) {
		op.Wait = c.w.between(100, 1500).Truncate(time.Millisecond)
	}
	if c.w.chance(10) {
		op.LockDelay = c.w.between(50, 300).Truncate(time.Millisecond)
	}
	op.Reclaim = c.w.chance(10)
	c.w.call(op, false, c.acquired)
}

func (c *simClient) acquired(o history.Operation) {
	switch {
	case o.Outcome == history.OK:
		c.tokens[o.Name], c.ttls[o.Name] = o.Answer.Token, o.TTL
		c.w.rec.Add(history.Belief{Client: c.name, Name: o.Name, Token: o.Answer.Token, From: o.Return, To: o.Return + o.TTL})
		if c.w.chance(90) {
			break
		}
		fallthrough
	case o.Outcome == history.Unknown: // once more, the same
		o.Answer, o.Outcome = history.Answer{}, ""
		c.w.call(o, c.w.over(), c.acquired)
		return
	}
	c.again(o)
}

// released repeats a release of which nobody knows what came.
func (c *simClient) released(o history.Operation) {
	if o.Outcome != history.Unknown {
		c.again(o)
		return
	}
	o.Answer, o.Outcome = history.Answer{}, ""
	c.w.call(o, true, c.again)
}

func (c *simClient) renewed(o history.Operation) {
	if o.Outcome == history.Refused && c.w.chance(70) { // else it goes on with a dead token
		delete(c.tokens, o.Name)
	}
	c.again(o)
}

// write reads a counter and adds one, with a token and sometimes with its lease.
func (c *simClient) write(op history.Operation) {
	read := history.Operation{Client: c.name, Kind: history.ReadValue, Register: "r/" + op.Name}
	c.w.call(read, false, func(o history.Operation) {
		if o.Outcome != history.OK {
			c.again(o)
			return
		}
		n, _ := strconv.Atoi(*o.Answer.Value)
		op.Kind, op.Register, op.Value, op.Counter = history.Write, read.Register, new(strconv.Itoa(n+1)), false
		if c.w.chance(40) {
			op.Guard = op.Name
		}
		op.Name, op.Holder = "", ""
		c.w.call(op, false, c.again)
	})
}
