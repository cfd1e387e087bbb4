package nexthop

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Deps are what the kind works with.
type Deps struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	// Names tells which interface a link is; the interface kind keeps it.
	Names  *kernel.Names
	Places selector.Places
	// Interfaces is what the scheduler knows of the interfaces, Nexthops of this kind.
	Interfaces kind.Interfaces
	Nexthops   kind.Nexthops
	// Wanted reports whether the scheduler wants a nexthop; nil: it wants all that are
	// there.
	Wanted func(k scheduler.Key) bool
}

// New makes the kind. What an operation remembers is the namespace, and the link if there
// is one.
func New(deps Deps) scheduler.Descriptor[*models.Nexthop, kernel.LinkRef] {
	d := &nexthop{Deps: deps}
	d.objects = owned.Objects[*models.Nexthop, kernel.LinkRef]{
		Kind: models.KindNexthop, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Forget: d.forget}
	k := d.objects.Descriptor()
	k.CreateBatch, k.Update, k.Delete = d.objects.CreateBatch, d.update, d.delete
	k.Needs, k.Claims, k.Compare = needs, claims, compare
	k.Retrieve, k.Watch, k.ChangedBy = d.retrieve, d.watch, d.objects.ChangedBy
	return k
}

type nexthop struct {
	Deps

	objects owned.Objects[*models.Nexthop, kernel.LinkRef]
	have    owned.Memory[kernel.NS, uint32, held]
}

// held is what is believed of the nexthop of a number.
type held struct {
	key     scheduler.Key
	nexthop kernel.Nexthop
	there   bool // as it says; else it is not there, not ours, or to be read
}

type (
	op    = scheduler.Op[*models.Nexthop, kernel.LinkRef]
	found = scheduler.Found[*models.Nexthop, kernel.LinkRef]
	scope = scheduler.Scope[*models.Nexthop, kernel.LinkRef]
)

// needs: the interface, up and on the network of the gateway; or the namespace, of a blackhole
// its loopback, and of a group one member. Were all of them needed, a group would go with the first, and with it
// the routes for which the others are there.
func needs(k scheduler.Key, v *models.Nexthop) (list []scheduler.Need) {
	if name := v.GetInterface(); name != "" {
		list = append(list, kind.OnUpInterface(name))
		if n, needed := kind.OnGateway(name, gateway(v), 0, v.GetOnlink()); needed {
			list = append(list, n)
		}
		return list
	}
	list = selector.Needs(v.GetNamespace())
	if v.GetBlackhole() {
		list = append(list, onLoopback(v.GetNamespace()))
	}
	if members := memberKeys(v); len(members) > 0 {
		var names []string
		for _, m := range members {
			names = append(names, string(m))
		}
		n := scheduler.AnyOf(models.KindNexthop+"/", "a member of the group: "+strings.Join(names, ", "))
		list = append(list, scheduler.If(n, func(at scheduler.Key, _ *models.Nexthop, _ kernel.LinkRef) bool {
			return at != k && slices.Contains(members, at)
		}))
	}
	return list
}

// onLoopback: the kernel makes a blackhole only while the loopback is up; one that is there
// stays when it goes down. So no more is needed than that the loopback is watched.
func onLoopback(in *models.Namespace) scheduler.Need {
	return scheduler.On(selector.LinkKey(in, "lo"), "the loopback of "+in.Text())
}

func memberKeys(v *models.Nexthop) (keys []scheduler.Key) {
	for _, m := range v.GetGroup() {
		keys = append(keys, scheduler.Key(models.NexthopKey(m.GetNexthop())))
	}
	return keys
}

// claims: one nexthop of a number in a namespace, as far as values tell. In which namespace
// an interface lives is not known here; that is judged when the nexthop is made.
func claims(_ scheduler.Key, v *models.Nexthop) []scheduler.Claim {
	at, where := "in "+selector.Text(v.GetNamespace()), "in "+v.GetNamespace().Text()
	if v.GetInterface() != "" {
		at, where = "by "+v.GetInterface(), "by "+v.GetInterface()
	}
	return []scheduler.Claim{{ID: fmt.Sprintf("%s|%d", at, v.GetId()), What: fmt.Sprintf("nexthop %d %s", v.GetId(), where)}}
}

// compare: what the kernel does not take in the place of what is there is made anew. It
// takes no group for a nexthop, no nexthop for a group, and of another family none that a
// route of the first refers to.
func compare(_ scheduler.Key, from, to *models.Nexthop) scheduler.Verdict {
	var d kind.Differences
	must := func(field string, was, is any) { d.Must(was != is, field, was, is) }
	may := func(field string, was, is any) { d.May(was != is, field, was, is) }
	must("namespace", selector.Text(from.GetNamespace()), selector.Text(to.GetNamespace()))
	must("id", from.GetId(), to.GetId())
	one, other := len(from.GetGroup()) > 0, len(to.GetGroup()) > 0
	d.Must(one != other, "group", group(from), group(to))
	must("family", from.EffectiveFamily(), to.EffectiveFamily())
	may("interface", from.GetInterface(), to.GetInterface())
	may("gateway", text(gateway(from)), text(gateway(to)))
	may("onlink", from.GetOnlink(), to.GetOnlink())
	may("encap", from.GetEncap().Text(), to.GetEncap().Text())
	may("blackhole", from.GetBlackhole(), to.GetBlackhole())
	d.May(one && other && group(from) != group(to), "group", group(from), group(to))
	return d.Verdict()
}

// group says the members, in an order of their own: packets do not see it.
func group(v *models.Nexthop) string {
	var list []string
	for _, m := range v.GetGroup() {
		s := m.GetNexthop()
		if m.EffectiveWeight() > 1 {
			s += fmt.Sprintf(" weight %d", m.EffectiveWeight())
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// gateway is the gateway of a valid value, the zero Addr if it has none.
func gateway(v *models.Nexthop) netip.Addr {
	a, _ := netip.ParseAddr(v.GetGateway())
	return a
}

func text(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}
