package lease_test

import (
	"fmt"
	"testing"
	"time"

	"leasehold/lease"
)

// Many renewals in one entry do what each would do by itself at the same index.
func TestTable_RenewMany_IsManyRenews(t *testing.T) {
	build := func() *log {
		l := newLog(t)
		for i := range 20 {
			l.acquire(fmt.Sprint("l/", i), "h", fmt.Sprint("r", i))
		}
		l.apply(lease.Release{Name: "l/3", Holder: "h", Token: 4})
		return l
	}
	many := lease.RenewMany{Holder: "h"}
	for i := range 20 {
		many.Renewals = append(many.Renewals, lease.Renewal{Name: fmt.Sprint("l/", i), Token: uint64(i + 1)})
	}
	many.Renewals[7].Token = 999
	many.Renewals = append(many.Renewals, lease.Renewal{Name: "never", Token: 1})

	one, each := build(), build()
	e := lease.Entry{Index: 100, Term: 2, At: int64(time.Hour / time.Millisecond)}
	got := one.table.Apply(e, many)
	renewed := 0
	for i, renewal := range many.Renewals {
		want := each.table.Apply(e, lease.Renew{Name: renewal.Name, Holder: "h", Token: renewal.Token})
		r := got.Each[i]
		if r.Name != renewal.Name || r.Err != want.Err || r.Entry != e || fmt.Sprint(r.Events) != fmt.Sprint(want.Events) {
			t.Errorf("renewal of %s: got %+v, a renew by itself gives %+v", renewal.Name, r, want)
		}
		if r.Err == nil {
			renewed++
			if g := r.Lease.Grant; g.Renewal != 100 || g.Renewals != 1 {
				t.Errorf("%s: the grant is %+v", r.Name, g)
			}
		}
	}
	if renewed != 18 || got.Err != nil || len(got.Events) != len(many.Renewals) {
		t.Errorf("%d renewed, %d events, %v", renewed, len(got.Events), got.Err)
	}
	if one.table.Hash() != each.table.Hash() || contents(one.table) != contents(each.table) {
		t.Error("the tables differ")
	}
	checkRebuilds(t, one.table)
}
