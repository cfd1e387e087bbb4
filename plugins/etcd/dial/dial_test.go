package dial_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T, url string) *dial.Client {
	t.Helper()
	return connectFor(t, url, 0)
}

// connectFor is connect with a bound of each request.
func connectFor(t *testing.T, url string, opTimeout time.Duration) *dial.Client {
	t.Helper()
	c, err := dial.Connect(t.Context(), dial.Config{Endpoints: []string{url}, OpTimeout: opTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (b *bench) put(l *dial.Lease, kvs ...dial.KV) {
	b.t.Helper()
	if err := b.Put(context.Background(), kvs, l); err != nil {
		b.t.Fatal(err)
	}
}

// list is "key=value" of all below a prefix.
func (b *bench) list(prefix string) (out []string) {
	b.t.Helper()
	if err := b.List(context.Background(), prefix, func(kv dial.KV) error {
		out = append(out, kv.Key+"="+string(kv.Value))
		return nil
	}); err != nil {
		b.t.Fatal(err)
	}
	return out
}

type bench struct {
	*dial.Client
	t *testing.T
}

// TestKeys: more keys than one transaction takes are written, read and listed, and those
// beside them are left out.
func TestKeys(t *testing.T) {
	b := &bench{connect(t, etcdtest.Start(t).URL()), t}
	var kvs []dial.KV
	var keys, want []string
	for i := range 350 {
		k := fmt.Sprintf("/a/%03d", i)
		kvs, keys, want = append(kvs, dial.KV{Key: k, Value: fmt.Append(nil, i)}), append(keys, k), append(want, fmt.Sprintf("%s=%d", k, i))
	}
	b.put(nil, append(kvs, dial.KV{Key: "/ab", Value: []byte("x")})...)
	if got := b.list("/a/"); !slices.Equal(got, want) {
		t.Errorf("%d keys are listed, of 350: %.200q", len(got), got)
	}
	got, err := b.Get(t.Context(), append(keys, "/none")...)
	if err != nil || len(got) != 350 || string(got["/a/349"]) != "349" {
		t.Errorf("%d keys are read, of 350; %v", len(got), err)
	}
	stop := errors.New("enough")
	if err := b.List(t.Context(), "/a/", func(dial.KV) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("a listing goes on: %v", err)
	}
	for from, want := range map[string]string{"": "/a/000", "/a/007": "/a/007", "/a/0070": "/a/008", "/a/999": ""} {
		if got, err := b.First(t.Context(), "/a/", from); got != want || err != nil {
			t.Errorf("the first from %q is %q, want %q; %v", from, got, want, err)
		}
	}
	if err := b.Delete(t.Context(), "/a/", "/none"); err != nil || len(b.list("/a/")) > 0 || len(b.list("/ab")) != 1 {
		t.Errorf("after the deletion of /a/ there are %q, %q; %v", b.list("/a/"), b.list("/ab"), err)
	}
}

// TestLargeValues: what is too much for one request goes in several.
func TestLargeValues(t *testing.T) {
	b := &bench{connect(t, etcdtest.Start(t).URL()), t}
	var kvs []dial.KV
	for i := range 12 {
		kvs = append(kvs, dial.KV{Key: fmt.Sprintf("/a/%02d", i), Value: []byte(strings.Repeat("x", 400<<10))})
	}
	b.put(nil, kvs...)
	n := 0
	for range b.list("/a/") {
		n++
	}
	if n != 12 {
		t.Errorf("%d of 12 are there", n)
	}
}

// TestLease: one creates a key, another cannot, and it goes with the lease of the first.
func TestLease(t *testing.T) {
	server := etcdtest.Start(t)
	b := &bench{connect(t, server.URL()), t}
	l, err := b.Grant(t.Context(), 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		if made, err := b.Create(t.Context(), dial.KV{Key: "/lock", Value: []byte("me")}, l); made != want || err != nil {
			t.Errorf("created: %v, want %v; %v", made, want, err)
		}
	}
	b.put(l, dial.KV{Key: "/with", Value: []byte("it")})
	b.put(nil, dial.KV{Key: "/without", Value: []byte("it")})
	select {
	case <-l.Lost():
		t.Error("it is lost, and was kept alive")
	case <-time.After(5 * time.Second): // longer than it outlives us
	}
	l.End()
	if got := b.list("/"); !slices.Equal(got, []string{"/without=it"}) {
		t.Errorf("after the end of the lease there are %q", got)
	}
}

// TestLostLease: who cannot reach etcd for as long as his lease lasts is told.
func TestLostLease(t *testing.T) {
	server := etcdtest.Start(t)
	b := connectFor(t, server.URL(), time.Second)
	l, err := b.Grant(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
	select {
	case <-l.Lost():
	case <-time.After(time.Minute):
		t.Error("nobody says that the lease is lost")
	}
	if _, err := b.Get(t.Context(), "/a"); err == nil || !strings.Contains(err.Error(), server.Addr()) {
		t.Errorf("the error does not name the server: %v", err)
	}
	l.End()
}

// TestRefused: what cannot be meant is refused before anything is dialled.
func TestRefused(t *testing.T) {
	for want, c := range map[string]dial.Config{
		"a certificate needs its key":                                  {CertFile: "c.pem"},
		"a user needs a password file":                                 {User: "amy"},
		"but http:// is not encrypted":                                 {Endpoints: []string{"http://127.0.0.1:1"}, CAFile: "ca.pem"},
		"the scheme must be http, https":                               {Endpoints: []string{"ftp://127.0.0.1:1"}},
		"etcd endpoint \"http://a b\"":                                 {Endpoints: []string{"http://a b"}},
		"ca.pem: no such file or directory":                            {Endpoints: []string{"https://127.0.0.1:1"}, CAFile: "ca.pem"},
		"password: no such file":                                       {Endpoints: []string{"http://127.0.0.1:1"}, User: "amy", PasswordFile: "password"},
		"no etcd answers at http://127.0.0.1:1: nothing listens there": {Endpoints: []string{"http://127.0.0.1:1"}, OpTimeout: time.Second},
	} {
		c, err := dial.Connect(t.Context(), c)
		if err == nil {
			_, err = c.Get(t.Context(), "/a")
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
