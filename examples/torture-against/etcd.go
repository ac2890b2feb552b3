package main

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	etcd "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdPeer takes a key under a lease of etcd for a lease of ours, and the revision that
// created the key for its token.
type etcdPeer struct{ c *etcd.Client }

var _ Peer = (*etcdPeer)(nil)

func openEtcd(endpoint string) (*etcdPeer, error) {
	c, err := etcd.New(etcd.Config{Endpoints: []string{endpoint}, DialTimeout: 2 * time.Second, Logger: zap.NewNop()})
	return &etcdPeer{c}, err
}

func (p *etcdPeer) Close() error { return p.c.Close() }

// Acquire: TTLs of etcd are whole seconds, and it may give a longer one.
func (p *etcdPeer) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Grant, bool, error) {
	l, err := p.c.Grant(ctx, int64((ttl+time.Second-1)/time.Second))
	if err != nil {
		return Grant{}, false, err
	}
	r, err := p.c.Txn(ctx).
		If(etcd.Compare(etcd.CreateRevision(name), "=", 0)).
		Then(etcd.OpPut(name, holder, etcd.WithLease(l.ID))).Commit()
	if err != nil {
		return Grant{}, false, err
	}
	if !r.Succeeded {
		_, _ = p.c.Revoke(ctx, l.ID) // else it ends by itself
		return Grant{}, false, nil
	}
	return Grant{name, holder, uint64(r.Header.Revision), time.Duration(l.TTL) * time.Second, int64(l.ID)}, true, nil
}

func (p *etcdPeer) Renew(ctx context.Context, g Grant) (bool, error) {
	_, err := p.c.KeepAliveOnce(ctx, etcd.LeaseID(g.lease))
	return settle(err)
}

func (p *etcdPeer) Release(ctx context.Context, g Grant) (bool, error) {
	_, err := p.c.Revoke(ctx, etcd.LeaseID(g.lease))
	return settle(err)
}

func settle(err error) (bool, error) {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (p *etcdPeer) Get(ctx context.Context, name string) (string, uint64, error) {
	r, err := p.c.Get(ctx, name)
	if err != nil || len(r.Kvs) == 0 {
		return "", 0, err
	}
	return string(r.Kvs[0].Value), uint64(r.Kvs[0].CreateRevision), nil
}
