package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
	"time"
	"unicode/utf8"

	"leasehold/httpapi/wire"
	"leasehold/lease"
)

var defaultTTL = ttlBounds(DefaultConfig().MinTTL, DefaultConfig().MaxTTL)

// FuzzDecode: whatever is accepted is valid UTF-8 and means to encoding/json
// just what it meant to us, with every field of it legal. Whatever is refused
// names a field.
func FuzzDecode(f *testing.F) {
	for _, tc := range hostile {
		if len(tc.body) < 1000 {
			f.Add([]byte(tc.body))
		}
	}
	f.Add([]byte(` { "token" : 1 , "value" : "\u00e9\ud83d\ude00\n" , "holder" : "h" , "name":"jobs\/a","ttl_ms":100 } `))
	f.Add([]byte(`{"name":"a","holder":"h","ttl_ms":86400000,"reclaim":false,"value":"","request_id":"r"}`))
	f.Add([]byte(`{"value":"v","token":7,"lease":"jobs/a"}`))
	f.Add([]byte(`{"name":"a","token":7,"reason":"stuck since noon"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, errA := decodeAcquire(body, defaultTTL)
		var wa wire.AcquireRequest
		if judge(t, body, errA, &wa) {
			want := lease.Acquire{
				Name: wa.Name, Holder: wa.Holder, RequestID: wa.RequestID,
				TTL: time.Duration(wa.TTLMillis) * time.Millisecond, Value: wa.Value, Reclaim: wa.Reclaim,
			}
			if a != want || a.TTL < 100*time.Millisecond || a.TTL > 24*time.Hour || lease.CheckName(a.Name) != nil || lease.CheckHolder(a.Holder) != nil {
				t.Errorf("%q: got %+v, want %+v", body, a, want)
			}
		}
		r, errR := decodeRenew(body, defaultTTL)
		var wr wire.RenewRequest
		if judge(t, body, errR, &wr) {
			value := r.Value
			r.Value = nil
			want := lease.Renew{Name: wr.Name, Holder: wr.Holder, Token: wr.Token, TTL: time.Duration(wr.TTLMillis) * time.Millisecond}
			if r != want || (value == nil) != (wr.Value == nil) || value != nil && *value != *wr.Value || r.Token == 0 {
				t.Errorf("%q: got %+v, want %+v", body, r, want)
			}
		}
		rel, errRel := decodeRelease(body)
		var wrel wire.ReleaseRequest
		if judge(t, body, errRel, &wrel) && (rel != lease.Release(wrel) || rel.Token == 0) {
			t.Errorf("%q: got %+v, want %+v", body, rel, wrel)
		}
		rev, errRev := decodeRevoke(body)
		var wrev wire.RevokeRequest
		if judge(t, body, errRev, &wrev) && (rev != lease.Revoke(wrev) || rev.Token == 0 || rev.Check() != nil) {
			t.Errorf("%q: got %+v, want %+v", body, rev, wrev)
		}
		w, errW := decodeWrite("a", body)
		var ww wire.WriteRequest
		if judge(t, body, errW, &ww) {
			want := lease.Write{Register: "a", Value: ww.Value, Token: ww.Token, Lease: ww.Lease}
			if w != want || w.Check() != nil {
				t.Errorf("%q: got %+v, want %+v", body, w, want)
			}
		}
	})
}

// judge checks the verdict on a body and, if it was accepted, decodes it as
// encoding/json does.
func judge(t *testing.T, body []byte, err error, into any) (accepted bool) {
	t.Helper()
	if err != nil {
		if e, ok := errors.AsType[*lease.FieldError](err); !ok || e.Field == "" || e.Detail == "" {
			t.Errorf("%q: refused with %#v", body, err)
		}
		return false
	}
	if !utf8.Valid(body) {
		t.Errorf("%q: accepted, but is not valid UTF-8", body)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Errorf("%q: accepted, but encoding/json says %v", body, err)
	}
	return true
}

// The path of each write begins here.
func BenchmarkDecodeAcquire(b *testing.B) {
	body := []byte(`{"name":"jobs/nightly-report","holder":"worker-17.example.com:4711","ttl_ms":10000,"request_id":"r-0123456789abcdef0123456789abcdef"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeAcquire(body, defaultTTL); err != nil {
			b.Fatal(err)
		}
	}
}

// The same body by encoding/json, which is far less strict, to compare.
func BenchmarkDecodeAcquireEncodingJSON(b *testing.B) {
	body := []byte(`{"name":"jobs/nightly-report","holder":"worker-17.example.com:4711","ttl_ms":10000,"request_id":"r-0123456789abcdef0123456789abcdef"}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var a wire.AcquireRequest
		if err := json.Unmarshal(body, &a); err != nil {
			b.Fatal(err)
		}
	}
}

// A whole acquire but for the network and the backend.
func BenchmarkServeAcquire(b *testing.B) {
	s := newServer(b, newFake())
	b.ReportAllocs()
	for b.Loop() {
		if w := do(b, s, "POST", "/v1/acquire", acquireBody); w.Code != 200 {
			b.Fatal(w.Code)
		}
	}
}
