package address_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/address"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

type (
	scope = scheduler.Scope[*models.Address, kernel.AddressRef]
	known = scheduler.Known[*models.Address, kernel.AddressRef]
	op    = scheduler.Op[*models.Address, kernel.AddressRef]
)

// bench is the kind on a kernel, with stand-ins for the scheduler and the
// interface kind.
type bench struct {
	*hosttest.Host
	t      *testing.T
	net    *netlinktest.Namespace
	ledger *kernel.MemLedger
	names  *kernel.Names
	links  *interfaces
	claims pool
	wanted map[scheduler.Key]bool // by the scheduler
	kind   scheduler.Descriptor[*models.Address, kernel.AddressRef]
	// kernelOf is the kernel as the kind has it.
	kernelOf *counting

	mu sync.Mutex
	in map[scheduler.Key]known
}

// interfaces stands in for what the scheduler knows of the interfaces, which the kind asks
// for from its watch as well.
type interfaces struct {
	mu  sync.Mutex
	all map[scheduler.Key]*inPlace
}

type inPlace struct {
	v   *models.Interface
	ref kernel.LinkRef // zero: it is wanted, but has not been read yet
}

func (l *interfaces) put(k scheduler.Key, p *inPlace) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all[k] = p
}

func (l *interfaces) Get(k scheduler.Key) (*models.Interface, kernel.LinkRef, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.all[k]; p != nil && p.ref.Index != 0 {
		return p.v, p.ref, true
	}
	return nil, kernel.LinkRef{}, false
}

func (l *interfaces) Wanted(k scheduler.Key) (*models.Interface, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.all[k]; p != nil {
		return p.v, true
	}
	return nil, false
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchOn(t, hosttest.Linux(t))
}

func newBenchOn(t *testing.T, h *hosttest.Host) *bench {
	b := &bench{Host: h, t: t, net: h.Net, ledger: &kernel.MemLedger{}, links: &interfaces{all: map[scheduler.Key]*inPlace{}}, claims: pool{}, wanted: map[scheduler.Key]bool{}, in: map[scheduler.Key]known{}}
	b.names, b.kernelOf = &kernel.Names{}, &counting{Kernel: h.Kernel}
	b.restart()
	return b
}

func (b *bench) owner() *kernel.Owner { return kernel.NewOwner("host7", "boot", b.ledger, nil) }

// restart forgets what the kind has in memory.
func (b *bench) restart() {
	b.kind = address.New(address.Deps{Kernel: b.kernelOf, Owner: b.owner(), Names: b.names, Interfaces: b.links, Claims: b.claims,
		Wanted: func(k scheduler.Key) bool { return b.wanted[k] }})
}

// link makes a bridge as our own interface, or adopts it if the value says so.
func (b *bench) link(name, value string) kernel.LinkRef {
	b.t.Helper()
	msg, err := models.DecodeKind(models.KindInterface, []byte(value))
	if err != nil {
		b.t.Fatal(err)
	}
	v := msg.(*models.Interface)
	key := models.InterfaceKey(name)
	spec := kernel.LinkSpec{Name: name, Bridge: &kernel.BridgeSpec{}, Up: true}
	adopted := v.GetExisting() != nil
	if !adopted {
		spec.Alias, spec.Group = kernel.Mark("host7", key), kernel.Group("host7")
	}
	l, err := b.AddLink(b.Own(), spec)
	if err != nil {
		b.t.Fatal(err)
	}
	if adopted {
		e := kernel.Entry{ID: key, NS: l.NS, Value: models.Encode(v)}
		if err := b.owner().Record(e.Adopt(l)); err != nil {
			b.t.Fatal(err)
		}
	}
	b.links.put(scheduler.Key(key), &inPlace{v, l.Ref()})
	b.names.Put(l.Ref(), name)
	return l.Ref()
}

// is has an interface be wanted and be there with a value.
func (b *bench) is(name, value string, ref kernel.LinkRef) {
	b.t.Helper()
	msg, err := models.DecodeKind(models.KindInterface, []byte(value))
	if err != nil {
		b.t.Fatal(err)
	}
	b.links.put(scheduler.Key(models.InterfaceKey(name)), &inPlace{msg.(*models.Interface), ref})
}

// add creates address/<name>, or the derived key if the name is "".
func (b *bench) add(key, value string) error {
	b.t.Helper()
	k, v := scheduler.Key(key), decode(b.t, value)[0]
	b.wanted[k] = true
	m, err := b.kind.Create(context.Background(), k, v)
	if err == nil {
		b.believe(k, v, m)
	}
	return err
}

func (b *bench) believe(k scheduler.Key, v *models.Address, m kernel.AddressRef) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.in[k] = known{Key: k, Value: v, Meta: m, InPlace: true}
}

// derived creates what an interface derives.
func (b *bench) derived(iface string, cidrs ...string) {
	b.t.Helper()
	for _, c := range cidrs {
		if err := b.add(models.AddressKey(iface, c), fmt.Sprintf(`{"interface":%q,"address":%q}`, iface, c)); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) delete(keys ...string) {
	b.t.Helper()
	var ops []*op
	for _, key := range keys {
		kn := b.in[scheduler.Key(key)]
		ops = append(ops, &op{Key: kn.Key, Value: kn.Value, Meta: kn.Meta})
	}
	b.kind.DeleteBatch(context.Background(), ops)
	for _, o := range ops {
		if o.Err != nil {
			b.t.Fatalf("delete %s: %v", o.Key, o.Err)
		}
		delete(b.in, o.Key)
	}
}

// look lists what is found: "key value", foreign ones with a star.
func (b *bench) look(keys ...string) string {
	b.t.Helper()
	s := scope{All: len(keys) == 0}
	for _, k := range keys {
		s.Keys = append(s.Keys, scheduler.Key(k))
	}
	for _, k := range slices.Sorted(maps.Keys(b.in)) {
		if s.All || slices.Contains(s.Keys, k) {
			s.Known = append(s.Known, b.in[k])
		}
	}
	var lines []string
	for f, err := range b.kind.Retrieve(context.Background(), s) {
		if err != nil {
			b.t.Errorf("%s: %v", f.Key, err)
			continue
		}
		line := string(f.Key)
		if f.Foreign {
			line += "*"
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

// shown are the addresses of a link as ip lists them.
func (b *bench) shown(link string) string {
	b.t.Helper()
	var list []string
	for _, l := range b.net.JSON(b.t, "addr show dev "+link) {
		infos, _ := l["addr_info"].([]any)
		for _, x := range infos {
			a := x.(map[string]any)
			if a["scope"] == "link" && a["family"] == "inet6" {
				continue
			}
			s := fmt.Sprintf("%v/%v", a["local"], a["prefixlen"])
			if a["secondary"] == true {
				s += "(2)"
			}
			list = append(list, s)
		}
	}
	return strings.Join(list, " ")
}

func conflict(err error) bool {
	var class *scheduler.OpError
	return errors.As(err, &class) && class.Owner != ""
}
