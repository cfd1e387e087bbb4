package forward

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
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
	d := &forward{Deps: deps}
	d.objects = owned.Objects[*models.Forward, string]{
		Kind: models.KindForward, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare}
	k := d.objects.Descriptor()
	k.Update, k.Delete = d.objects.Update, d.delete // what is of another link goes after what is missing was made
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch = d.retrieve, d.watch
	return k
}

type forward struct {
	Deps

	objects owned.Objects[*models.Forward, string]
	held    owned.Memory[kernel.NS, scheduler.Key, scheduler.Key] // what there are rules of
	last    string                                                // the firewalls when they were last looked at
}

type (
	op    = scheduler.Op[*models.Forward, string]
	found = scheduler.Found[*models.Forward, string]
	scope = scheduler.Scope[*models.Forward, string]
)

// needs: the interface; with another name there are other rules.
func needs(_ scheduler.Key, v *models.Forward) []scheduler.Need {
	k := scheduler.Key(models.InterfaceKey(v.GetInterface()))
	n := scheduler.On(k, "the interface whose packets pass")
	return []scheduler.Need{scheduler.Project(n, func(v *models.Interface, _ kernel.LinkRef) string { return v.EffectiveHostName(string(k)) })}
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

func (d *forward) prepare(ctx context.Context, o *op) (job owned.Job[string], err error) {
	link, err := d.link(o.Value)
	if err != nil {
		return job, err
	}
	mark := d.mark(o.Key)
	e := kernel.Entry{ID: string(o.Key), NS: d.Kernel.Own(), Value: models.Encode(o.Value), Mark: mark + " " + link}
	return owned.Job[string]{Entries: []kernel.Entry{e}, Make: func() (string, error) {
		d.hold(o.Key, true)
		if err := d.set(ctx, mark, rules(link, mark)); err != nil {
			return link, err
		}
		return link, d.Owner.Hit("forward/made")
	}}, nil
}

func (d *forward) delete(ctx context.Context, k scheduler.Key, _ *models.Forward, _ string) error {
	return d.objects.Delete(func() error {
		err := d.set(ctx, d.mark(k), nil)
		if err == nil {
			d.hold(k, false)
		}
		return err
	}, k)
}

func (d *forward) hold(k scheduler.Key, there bool) {
	if there {
		d.held.Note(d.Kernel.Own(), k, k)
	} else {
		d.held.Forget(d.Kernel.Own(), k)
	}
}
