package forward

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

const prefix = models.KindForward + "/"

// Deps are what the kind works with.
type Deps struct {
	Kernel    kernel.Kernel
	Firewalls kernel.Firewalls
	Owner     *kernel.Owner
	// Interfaces is what the scheduler knows of the interfaces.
	Interfaces kind.Interfaces
	// Poll gives the moments at which the firewalls are asked for changes. Default:
	// every ten seconds while Watch runs.
	Poll <-chan time.Time
}

// New makes the kind. What an operation remembers is the name of the link.
func New(deps Deps) scheduler.Descriptor[*models.Forward, string] {
	d := &forward{Deps: deps, held: map[scheduler.Key]bool{}}
	k := kind.Of[*models.Forward, string](models.KindForward)
	k.Create, k.Update, k.Delete = d.create, d.update, d.delete
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch = d.retrieve, d.watch
	return k
}

type forward struct {
	Deps

	mu   sync.Mutex
	held map[scheduler.Key]bool // what there are rules of
	last string                 // the firewalls when they were last looked at
}

type (
	found = scheduler.Found[*models.Forward, string]
	scope = scheduler.Scope[*models.Forward, string]
)

// needs: the interface; with another name there are other rules.
func needs(_ scheduler.Key, v *models.Forward) []scheduler.Need {
	n := scheduler.On(scheduler.Key(models.InterfaceKey(v.GetInterface())), "the interface whose packets pass")
	return []scheduler.Need{scheduler.Project(n, func(v *models.Interface, _ kernel.LinkRef) string { return v.GetHostName() })}
}

func claims(_ scheduler.Key, v *models.Forward) []scheduler.Claim {
	return []scheduler.Claim{{ID: v.GetInterface(), What: "what passes of interface " + v.GetInterface()}}
}

// compare: rules that are not complete show as those of no interface.
func compare(_ scheduler.Key, from, to *models.Forward) scheduler.Verdict {
	switch {
	case from.GetInterface() == to.GetInterface():
		return scheduler.Verdict{}
	case from.GetInterface() == "":
		return scheduler.Verdict{Change: scheduler.InPlace, Reason: "rules are missing in a firewall, or are where they do nothing"}
	}
	return scheduler.Verdict{Change: scheduler.InPlace, Reason: fmt.Sprintf("interface %s → %s", from.GetInterface(), to.GetInterface())}
}

// link is the name of the interface of a value.
func (d *forward) link(v *models.Forward) (string, error) {
	key := models.InterfaceKey(v.GetInterface())
	at, err := kind.LinkOf(d.Interfaces, v.GetInterface())
	if err != nil {
		return "", err
	}
	if at.NS != d.Kernel.Own() {
		return "", scheduler.Invalid("interface", "%s lives in another namespace; the firewall is that of the agent's own", key)
	}
	l, err := d.Kernel.LinkByIndex(at.NS, at.Index)
	if err == nil && strings.HasSuffix(l.Name, "+") {
		return "", scheduler.Invalid("interface", "%s is called %s, and a + at the end means all that begin so; choose another host_name", key, l.Name)
	}
	return l.Name, err
}

func (d *forward) mark(k scheduler.Key) string { return d.Owner.Comment(string(k)) }

func (d *forward) create(ctx context.Context, k scheduler.Key, v *models.Forward) (string, error) {
	link, err := d.link(v)
	if err != nil {
		return "", err
	}
	defer d.Owner.Begin(string(k))()
	own := d.Kernel.Own()
	if err := d.Owner.Record(kernel.Entry{ID: string(k), NS: own, Value: models.Encode(v), Mark: d.mark(k) + " " + link}); err != nil {
		return "", err
	}
	if err := d.Owner.Hit("forward/recorded"); err != nil {
		return "", err
	}
	d.hold(k, true)
	if err := d.set(ctx, d.mark(k), rules(link, d.mark(k))); err != nil {
		return link, err
	}
	return link, d.Owner.Hit("forward/made")
}

// update makes what is missing. What is of another link goes after that.
func (d *forward) update(ctx context.Context, k scheduler.Key, _, to *models.Forward, _ string) (string, error) {
	return d.create(ctx, k, to)
}

func (d *forward) delete(ctx context.Context, k scheduler.Key, _ *models.Forward, _ string) error {
	defer d.Owner.Begin(string(k))()
	if err := d.set(ctx, d.mark(k), nil); err != nil {
		return err
	}
	if err := d.Owner.Hit("forward/deleted"); err != nil {
		return err
	}
	d.hold(k, false)
	d.Owner.Remove(string(k))
	return nil
}

func (d *forward) hold(k scheduler.Key, there bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if there {
		d.held[k] = true
	} else {
		delete(d.held, k)
	}
}
