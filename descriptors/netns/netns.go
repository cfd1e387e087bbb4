package netns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// loopback is the index of the loopback in every namespace.
const loopback = 1

// Options of the kind. The zero value works.
type Options struct {
	// Dir is where the kernel port keeps named namespaces. Default: [selector.NamedDir].
	Dir string
	// Refused reports whether the namespace that a name leads to may not be used. Such a
	// name is shown, and satisfies no need. Nil refuses none.
	Refused func(in *models.Namespace, inode uint64) bool
}

// New makes the kind. What an operation remembers is the identity of the
// namespace, [selector.Refused] of one that no value may use.
func New(port kernel.Kernel, o *kernel.Owner, opts Options) scheduler.Descriptor[*models.NetNS, kernel.NS] {
	d := &netns{kernel: port, owner: o, dir: cmp.Or(opts.Dir, selector.NamedDir), isRefused: opts.Refused, seen: map[string]kernel.NS{}}
	d.objects = owned.Objects[*models.NetNS, kernel.NS]{Kind: models.KindNetNS, Kernel: port, Owner: o, Prepare: d.prepare}
	k := d.objects.Descriptor()
	k.Delete, k.Disruption = d.delete, disruption
	k.Needs = func(scheduler.Key, *models.NetNS) []scheduler.Need { return nil }
	k.Equal = func(scheduler.Key, *models.NetNS, *models.NetNS) bool { return true }
	k.Retrieve, k.Watch = d.retrieve, d.watch
	return k
}

type netns struct {
	kernel  kernel.Kernel
	owner   *kernel.Owner
	objects owned.Objects[*models.NetNS, kernel.NS]
	dir     string
	// isRefused is [Options.Refused].
	isRefused func(in *models.Namespace, inode uint64) bool

	mu   sync.Mutex
	seen map[string]kernel.NS // what the scheduler believes, to know our own echo
}

func (d *netns) note(name string, ns kernel.NS) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[name] = ns
	if ns == 0 {
		delete(d.seen, name)
		d.owner.Leave(string(keyOf(name)))
	}
}

// refused reports whether no value may use the namespace that has a name.
func (d *netns) refused(name string, ns kernel.NS) bool {
	return d.isRefused != nil && d.isRefused(&models.Namespace{In: &models.Namespace_Netns{Netns: name}}, uint64(ns))
}

func (d *netns) path(name string) string { return d.dir + "/" + name }

func nameOf(k scheduler.Key) string {
	escaped := strings.TrimPrefix(string(k), models.KindNetNS+"/")
	if name, err := models.Unescape(escaped); err == nil {
		return name
	}
	return escaped
}

func keyOf(name string) scheduler.Key { return scheduler.Key(models.NetNSKey(models.Escape(name))) }

func (d *netns) prepare(_ context.Context, o *op) (owned.Job[kernel.NS], error) {
	id, name := string(o.Key), nameOf(o.Key)
	before, had := d.owner.Entry(id)
	entry := kernel.Entry{ID: id, NSPath: d.path(name), Mark: d.owner.Mark(id)}
	return owned.Job[kernel.NS]{Entries: []kernel.Entry{entry}, Make: func() (kernel.NS, error) { return d.make(id, name, before, had) }}, nil
}

// make makes a namespace, or finds ours. recorded reports whether the ledger named it
// before this operation, as before says.
func (d *netns) make(id, name string, before kernel.Entry, recorded bool) (kernel.NS, error) {
	ns, err := d.kernel.CreateNamed(name)
	if errors.Is(err, kernel.ErrExist) && recorded && d.remnant(name) {
		ns, err = d.kernel.CreateNamed(name)
	}
	if errors.Is(err, kernel.ErrExist) {
		ns, err = d.existing(name, before, recorded)
	}
	if err != nil {
		if !recorded {
			d.owner.Remove(id)
		}
		return 0, err
	}
	d.note(name, ns)
	d.owner.Use(id, ns)
	if err := d.owner.Hit("netns/made"); err != nil {
		return 0, err
	}
	if err := d.mark(id, ns); err != nil {
		return 0, err
	}
	d.owner.SawNamespace(id, d.kernel.Cookie(ns))
	return ns, d.owner.Hit("netns/marked")
}

// remnant removes the file of a creation that was cut short before there was a
// namespace behind it, and reports whether it did.
func (d *netns) remnant(name string) bool {
	named, err := d.kernel.ListNamed()
	if _, there := named[name]; err != nil || there {
		return false
	}
	return d.kernel.DeleteNamed(name) == nil
}

// existing reads back what stands under the name: ours is success. recorded
// reports whether the ledger named it before we came to make it.
func (d *netns) existing(name string, before kernel.Entry, recorded bool) (kernel.NS, error) {
	ns, err := d.kernel.Open(d.path(name))
	if err != nil {
		return 0, fmt.Errorf("open what is there already: %w", err)
	}
	ours, err := d.ours(name, ns, before, recorded, true)
	if err != nil {
		return 0, err
	}
	if !ours {
		return 0, scheduler.Conflict("somebody else", fmt.Errorf(
			"a network namespace %s is there already and was not made by Plumb; choose another name, or use it by the selector netns without asking for it", name))
	}
	return ns, nil
}

// ours reports whether an open namespace is ours. The ledger decides if it knows the cookie of
// the namespace, and a mark that others have changed is restored if mend says so. Else
// ours bears our mark, or is what a crash between making and marking leaves: named by the
// ledger and empty. That one gets its mark at once: when something is in it nobody could
// tell any more.
func (d *netns) ours(name string, ns kernel.NS, e kernel.Entry, recorded, mend bool) (bool, error) {
	lo, err := d.kernel.LinkByIndex(ns, loopback)
	if err != nil {
		return false, fmt.Errorf("read the mark of namespace %s: %w", name, err)
	}
	marked := lo.Alias == d.owner.Mark(string(keyOf(name)))
	if same, told := e.IsNamespace(d.kernel.Cookie(ns)); recorded && told && (same || marked) {
		if same && !marked && mend {
			return true, d.mark(string(keyOf(name)), ns)
		}
		return same, nil
	}
	if marked {
		return true, nil
	}
	if !recorded || lo.Alias != "" || lo.Up {
		return false, nil
	}
	links, err := d.kernel.Links(ns)
	if err != nil || len(links) != 1 {
		return false, err
	}
	return true, d.mark(string(keyOf(name)), ns)
}

func (d *netns) mark(id string, ns kernel.NS) error {
	mark := d.owner.Mark(id)
	if err := d.kernel.SetLink(ns, loopback, kernel.LinkPatch{Alias: &mark}); err != nil {
		return fmt.Errorf("mark the namespace as ours: %w", err)
	}
	return nil
}

func (d *netns) delete(_ context.Context, k scheduler.Key, _ *models.NetNS, ns kernel.NS) error {
	return d.objects.Delete(func() error { return d.remove(string(k), nameOf(k), ns) }, k)
}

// remove takes the namespace away, if it is still ours that has the name.
func (d *netns) remove(id, name string, ns kernel.NS) error {
	named, err := d.kernel.ListNamed()
	if err != nil {
		return fmt.Errorf("list the named namespaces: %w", err)
	}
	if now, there := named[name]; !there || now != ns {
		return nil // another one under the name is not ours to delete; ours is gone then
	}
	if _, err := d.kernel.Open(d.path(name)); err != nil { // it may be closed
		return fmt.Errorf("open namespace %s: %w", name, err)
	}
	e, recorded := d.owner.Entry(id)
	ours, err := d.ours(name, ns, e, recorded, false)
	if err != nil || !ours {
		return err
	}
	d.note(name, 0) // first, or we take the event for news
	if err := d.kernel.DeleteNamed(name); err != nil && !errors.Is(err, kernel.ErrNotExist) {
		d.note(name, ns)
		d.owner.Use(id, ns)
		return fmt.Errorf("delete namespace %s: %w", name, err)
	}
	return nil
}

func disruption(_ scheduler.Key, from, to *models.NetNS) scheduler.Disruption {
	if from != nil && to == nil {
		return scheduler.Cascading
	}
	return scheduler.NoDisruption
}
