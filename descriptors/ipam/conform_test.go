package ipam_test

import (
	"net/netip"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

func open(t testing.TB, l kernel.Ledger) *ipam.Book {
	t.Helper()
	b := ipam.Open(l, nil)
	if len(b.Unread) > 0 {
		t.Fatal(b.Unread)
	}
	return b
}

// TestConform holds the kinds to the contract of descriptors.
func TestConform(t *testing.T) {
	t.Run("ippool", func(t *testing.T) {
		ledger := &kernel.MemLedger{}
		schedulertest.Conform(t, ipam.Pools(open(t, ledger)), schedulertest.Spec[*models.IPPool, struct{}]{
			Samples: []schedulertest.Sample[*models.IPPool]{
				{Key: "ippool/blue", Values: []*models.IPPool{{Network: "10.0.0.0/24"}, {Network: "10.0.0.0/24", Gateway: "10.0.0.1"},
					{Network: "10.0.0.0/25", Reserved: []string{"10.0.0.2-10.0.0.9"}}}},
				{Key: "ippool/red", Values: []*models.IPPool{{Network: "10.0.0.0/24"}, {Network: "fd00::/64", Gateway: "fd00::1"}}},
			},
			Refused: map[scheduler.Key]*models.IPPool{"ippool/bad": {Network: "10.0.0.1/24"}},
			Restart: func(t testing.TB) scheduler.Descriptor[*models.IPPool, struct{}] { return ipam.Pools(open(t, ledger)) },
			Clone:   proto.CloneOf[*models.IPPool], Identical: same[*models.IPPool],
		})
	})
	t.Run("ipclaim", func(t *testing.T) {
		ledger := &kernel.MemLedger{}
		b := withPools(t, ledger)
		schedulertest.Conform(t, ipam.Claims(b), schedulertest.Spec[*models.IPClaim, ipam.Held]{
			Samples: []schedulertest.Sample[*models.IPClaim]{
				{Key: "ipclaim/web", Values: []*models.IPClaim{{Pool: "blue", Address: "10.0.0.7"}, {Pool: "blue", Address: "10.0.0.1"}, {Pool: "red", Address: "fd00::7"}}},
				{Key: "ipclaim/db", Values: []*models.IPClaim{{Pool: "blue"}, {Pool: "red"}}},
			},
			Refused: map[scheduler.Key]*models.IPClaim{"ipclaim/bad": {Pool: "ippool/blue"}},
			Restart: func(t testing.TB) scheduler.Descriptor[*models.IPClaim, ipam.Held] {
				return ipam.Claims(open(t, ledger))
			},
			Clone: proto.CloneOf[*models.IPClaim], Identical: same[*models.IPClaim],
			Normalize: func(_ scheduler.Key, found, asked *models.IPClaim) *models.IPClaim {
				if asked.GetAddress() == "" { // any will do
					found = proto.CloneOf(found)
					found.Address = ""
				}
				return found
			},
		})
	})
	t.Run("iplease", func(t *testing.T) {
		b := withPools(t, &kernel.MemLedger{})
		kind := ipam.Leases(b)
		schedulertest.Conform(t, kind, schedulertest.Spec[*models.IPLease, struct{}]{
			Samples: []schedulertest.Sample[*models.IPLease]{
				{Key: "iplease/blue%2Fweb", Values: []*models.IPLease{{}}},
				{Key: "iplease/red%2Fweb%2Ffd00::9", Values: []*models.IPLease{{}}},
				{Key: "iplease/red%2Fweb%2F10.0.0.7", Values: []*models.IPLease{{}}},
			},
			Make: func(_ testing.TB, k scheduler.Key, _ *models.IPLease) *models.IPLease {
				kind.Interest(k, true)
				for f := range kind.Retrieve(t.Context(), scheduler.Scope[*models.IPLease, struct{}]{Keys: []scheduler.Key{k}}) {
					return f.Value
				}
				return nil
			},
			Remove: func(_ testing.TB, k scheduler.Key) { kind.Interest(k, false) },
			Clone:  proto.CloneOf[*models.IPLease], Identical: same[*models.IPLease],
		})
	})
}

func same[V proto.Message](x, y V) bool { return proto.Equal(x, y) }

// withPools is a book with two pools.
func withPools(t testing.TB, l kernel.Ledger) *ipam.Book {
	t.Helper()
	b := open(t, l)
	pools := ipam.Pools(b)
	for name, v := range map[string]*models.IPPool{"blue": {Network: "10.0.0.0/24", Gateway: "10.0.0.1"}, "red": {Network: "fd00::/64"}} {
		if _, err := pools.Create(t.Context(), scheduler.Key("ippool/"+name), v); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// TestDamage: what is not ours to read is told, left where it is, and given to nobody.
func TestDamage(t *testing.T) {
	for id, value := range map[string]string{"something/else": `{}`, "ipaddress/blue/10.0.0.300": `{"claim":"x"}`, "ipaddress/blue/10.0.0.2": `[]`, "ippool/blue": `[]`} {
		ledger := &kernel.MemLedger{}
		if err := ledger.Add(kernel.Entry{ID: id, Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		b := ipam.Open(ledger, nil)
		if len(b.Unread) != 1 || !strings.Contains(b.Unread[0].Error(), id) {
			t.Errorf("%s: %v", id, b.Unread)
		}
		if id == "ippool/blue" {
			continue // who has it will say it again
		}
		if _, err := ipam.Pools(b).Create(t.Context(), "ippool/blue", &models.IPPool{Network: "10.0.0.0/30", Gateway: "10.0.0.1"}); err != nil {
			t.Fatal(err)
		}
		if got, taken := b.Full("blue"), id == "ipaddress/blue/10.0.0.2"; got != taken {
			t.Errorf("%s: the pool is full: %v", id, got)
		}
		if e, _ := ledger.Get(id); string(e.Value) != value {
			t.Errorf("%s became %s", id, e.Value)
		}
	}
}

// TestFound: addresses that are in use although the ledger does not say so are given to
// nobody but who holds them, whenever their pool comes; what the ledger says stays.
func TestFound(t *testing.T) {
	taken := func(claim, addr string) ipam.Taken {
		return ipam.Taken{Claim: claim, Addr: netip.MustParseAddr(addr)}
	}
	pool := &models.IPPool{Network: "10.0.0.0/29", Gateway: "10.0.0.1"}
	for _, first := range []bool{true, false} {
		ledger := &kernel.MemLedger{}
		if first {
			must(t, ledger.Add(
				kernel.Entry{ID: "ippool/blue", Value: models.Encode(pool)},
				kernel.Entry{ID: "ipaddress/blue/10.0.0.6", Value: []byte(`{"claim":"known"}`)}))
		}
		b := open(t, ledger)
		found := []ipam.Taken{taken("web", "10.0.0.3"), taken("", "10.0.0.2"), taken("web", "10.0.0.4"), taken("other", "10.9.0.2")}
		if first {
			found = append(found, taken("known", "10.0.0.5"), taken("", "10.0.0.6"))
		}
		if n := b.Found(found); n != 3 {
			t.Errorf("%d were missing", n)
		}
		if !first {
			_, err := ipam.Pools(b).Create(t.Context(), "ippool/blue", pool)
			must(t, err)
		}
		for _, again := range []bool{false, true} {
			if again { // it is in the ledger
				b = open(t, ledger)
			}
			claims := ipam.Claims(b)
			for i, want := range []string{"web 10.0.0.3/29", "new 10.0.0.4/29"} {
				name, addr, _ := strings.Cut(want, " ")
				h, err := claims.Create(t.Context(), scheduler.Key("ipclaim/"+name), &models.IPClaim{Pool: "blue"})
				if err != nil || h.Address.String() != addr {
					t.Errorf("first %v, again %v, %d: %v, %v, want %s", first, again, i, h.Address, err, want)
				}
			}
			if _, err := claims.Create(t.Context(), "ipclaim/thief", &models.IPClaim{Pool: "blue", Address: "10.0.0.2"}); err == nil || !strings.Contains(err.Error(), "ipclaim/found:10.0.0.2") {
				t.Errorf("an address of which nobody knows whose it is was given: %v", err)
			}
		}
	}
}

// TestFoundContradicts: the ledger is older than the objects that use its claims. What they have
// stays theirs, also over another start, and what they had before is free.
func TestFoundContradicts(t *testing.T) {
	ledger := &kernel.MemLedger{}
	must(t, ledger.Add(
		kernel.Entry{ID: "ippool/blue", Value: models.Encode(&models.IPPool{Network: "10.0.0.0/29", Gateway: "10.0.0.1"})},
		kernel.Entry{ID: "ipaddress/blue/10.0.0.2", Value: []byte(`{"claim":"web"}`)},
		kernel.Entry{ID: "ipaddress/blue/10.0.0.3", Value: []byte(`{"claim":"gone"}`)},
		kernel.Entry{ID: "ipaddress/blue/10.0.0.4", Value: []byte(`{"claim":"same"}`)}))
	b := open(t, ledger)
	sure := func(claim, addr string) ipam.Taken {
		return ipam.Taken{Claim: claim, Addr: netip.MustParseAddr(addr), Sure: true}
	}
	if n := b.Found([]ipam.Taken{sure("web", "10.0.0.3"), sure("same", "10.0.0.4"), sure("new", "10.0.0.6")}); n != 2 {
		t.Errorf("%d were missing", n)
	}
	for range 2 {
		for claim, want := range map[string]string{"web": "10.0.0.3/29", "same": "10.0.0.4/29", "new": "10.0.0.6/29"} {
			if h, err := ipam.Claims(b).Create(t.Context(), scheduler.Key("ipclaim/"+claim), &models.IPClaim{Pool: "blue"}); err != nil || h.Address.String() != want {
				t.Errorf("%s has %v, %v, want %s", claim, h.Address, err, want)
			}
		}
		if user := b.User("blue", netip.MustParseAddr("10.0.0.2")); user != "" {
			t.Errorf("10.0.0.2 is still used by %s", user)
		}
		b = open(t, ledger)
	}
}

// TestFoundOnLink: an interface has another address than the one that a stale record names with
// the same claim. Whichever of the two is found first, the address of the interface is given to
// nobody else.
func TestFoundOnLink(t *testing.T) {
	onLink := ipam.Taken{Claim: "web", Addr: netip.MustParseAddr("10.0.0.2"), OnLink: true}
	recorded := ipam.Taken{Claim: "web", Addr: netip.MustParseAddr("10.0.0.3")}
	for _, c := range []struct {
		found []ipam.Taken
		web   string
	}{
		{[]ipam.Taken{onLink, recorded}, "10.0.0.2/29"},
		{[]ipam.Taken{recorded, onLink}, "10.0.0.3/29"},
	} {
		b := open(t, &kernel.MemLedger{})
		b.Found(c.found)
		_, err := ipam.Pools(b).Create(t.Context(), "ippool/blue", &models.IPPool{Network: "10.0.0.0/29", Gateway: "10.0.0.1"})
		must(t, err)
		if h, err := ipam.Claims(b).Create(t.Context(), "ipclaim/web", &models.IPClaim{Pool: "blue"}); err != nil || h.Address.String() != c.web {
			t.Errorf("%v: web has %v, %v, want %s", c.found, h.Address, err, c.web)
		}
		if h, err := ipam.Claims(b).Create(t.Context(), "ipclaim/new", &models.IPClaim{Pool: "blue"}); err != nil || h.Address.Addr() == onLink.Addr {
			t.Errorf("%v: new has %v, %v", c.found, h.Address, err)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
