package nftables

import (
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// content is one of the things in a table, which their names tell apart.
type content interface {
	proto.Message
	GetName() string
}

func find[T content](list []T, name string) int {
	return slices.IndexFunc(list, func(t T) bool { return t.GetName() == name })
}

// differ names what is not the same of one sort of things in a table. Their order means
// nothing.
func differ[T content](what string, from, to []T, same func(a, b T) bool) (reasons []string) {
	for _, t := range to {
		switch i := find(from, t.GetName()); {
		case i < 0:
			reasons = append(reasons, what+" "+t.GetName()+" is missing")
		case !same(from[i], t):
			reasons = append(reasons, what+" "+t.GetName()+" is another")
		}
	}
	for _, f := range from {
		if find(to, f.GetName()) < 0 {
			reasons = append(reasons, what+" "+f.GetName()+" is too many")
		}
	}
	return reasons
}

func sameChain(a, b *models.Chain) bool {
	if a.GetHook() != "" && (a.EffectivePriority() != b.EffectivePriority() || a.EffectivePolicy() != b.EffectivePolicy()) {
		return false
	}
	return a.GetType() == b.GetType() && a.GetHook() == b.GetHook() && sameWords(a.GetDevices(), b.GetDevices()) && slices.Equal(a.GetRules(), b.GetRules())
}

func sameSet(a, b *models.NamedSet) bool {
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	x.Flags, y.Flags, x.Elements, y.Elements = nil, nil, nil, nil
	return proto.Equal(x, y) && sameWords(a.GetFlags(), b.GetFlags()) && sameWords(a.GetElements(), b.GetElements())
}

func sameMap(a, b *models.NamedMap) bool {
	x, y := proto.CloneOf(a), proto.CloneOf(b)
	x.Flags, y.Flags, x.Elements, y.Elements = nil, nil, nil, nil
	return proto.Equal(x, y) && sameWords(a.GetFlags(), b.GetFlags()) && sameWords(a.GetElements(), b.GetElements())
}

func sameFlowtable(a, b *models.Flowtable) bool {
	return a.EffectivePriority() == b.EffectivePriority() && sameWords(a.GetDevices(), b.GetDevices()) &&
		a.GetCounter() == b.GetCounter() && a.GetOffload() == b.GetOffload()
}

// sameWords compares lists whose order means nothing.
func sameWords(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// tableOf is a value as the kernel is told, with the addresses of claims and the names of
// links that an entry holds.
func (d *nftables) tableOf(k scheduler.Key, v *models.Nftables, m made) kernel.Table {
	v = v.Claimed(func(claim string) string { return m.Claims[claim] })
	t := kernel.Table{Family: v.EffectiveFamily(), Name: v.EffectiveTable(string(k)), Comment: d.Owner.Comment(string(k))}
	for _, c := range v.GetChains() {
		chain := kernel.TableChain{Name: c.GetName(), Type: c.GetType(), Hook: c.GetHook(), Devices: linksOf(c.GetDevices(), m)}
		for _, r := range c.GetRules() {
			chain.Rules = append(chain.Rules, models.ByName(r))
		}
		if c.GetHook() != "" {
			chain.Priority, chain.Policy = c.EffectivePriority(), c.EffectivePolicy()
		}
		t.Chains = append(t.Chains, chain)
	}
	for _, s := range v.GetSets() {
		t.Sets = append(t.Sets, kernel.TableSet{Name: s.GetName(), Type: s.GetType(), Flags: s.GetFlags(), Timeout: s.GetTimeout(),
			Size: s.GetSize(), AutoMerge: s.GetAutoMerge(), Counter: s.GetCounter(), Elements: s.GetElements()})
	}
	for _, s := range v.GetMaps() {
		t.Maps = append(t.Maps, kernel.TableSet{Name: s.GetName(), Type: s.GetType(), Data: s.GetData(), Flags: s.GetFlags(),
			Timeout: s.GetTimeout(), Size: s.GetSize(), Counter: s.GetCounter(), Elements: s.GetElements()})
	}
	for _, f := range v.GetFlowtables() {
		t.Flowtables = append(t.Flowtables, kernel.TableFlowtable{Name: f.GetName(), Priority: f.EffectivePriority(),
			Devices: linksOf(f.GetDevices(), m), Counter: f.GetCounter(), Offload: f.GetOffload()})
	}
	return t
}

// valueOf is what was read as a value, at the place of another. Links have the names of
// the interfaces for which they were written.
func valueOf(t kernel.Table, like *models.Nftables, m made) *models.Nftables {
	v := proto.CloneOf(like)
	v.Chains, v.Sets, v.Maps, v.Flowtables = nil, nil, nil, nil
	for _, c := range t.Chains {
		v.Chains = append(v.Chains, &models.Chain{Name: c.Name, Type: c.Type, Hook: c.Hook, Devices: devicesOf(c.Devices, m),
			Priority: c.Priority, Policy: c.Policy, Rules: c.Rules})
	}
	for _, s := range t.Sets {
		v.Sets = append(v.Sets, &models.NamedSet{Name: s.Name, Type: s.Type, Flags: s.Flags, Timeout: s.Timeout,
			Size: s.Size, AutoMerge: s.AutoMerge, Counter: s.Counter, Elements: s.Elements})
	}
	for _, s := range t.Maps {
		v.Maps = append(v.Maps, &models.NamedMap{Name: s.Name, Type: s.Type, Data: s.Data, Flags: s.Flags,
			Timeout: s.Timeout, Size: s.Size, Counter: s.Counter, Elements: s.Elements})
	}
	for _, f := range t.Flowtables {
		v.Flowtables = append(v.Flowtables, &models.Flowtable{Name: f.Name, Priority: f.Priority, Devices: devicesOf(f.Devices, m),
			Counter: f.Counter, Offload: f.Offload})
	}
	return v
}

// linksOf are the names of links for those of interfaces.
func linksOf(devices []string, m made) (links []string) {
	for _, name := range devices {
		links = append(links, m.Devices[name])
	}
	return links
}

// devicesOf are the names of interfaces for those of links, as far as they were written.
func devicesOf(links []string, m made) (devices []string) {
	for _, link := range links {
		name := link
		for device, written := range m.Devices {
			if written == link {
				name = device
			}
		}
		devices = append(devices, name)
	}
	return devices
}

// elementsDiffer are the names of the sets and maps that have other elements in the one
// table than in the other. It is false if the tables differ in more, or in elements that
// are for good.
func elementsDiffer(a, b kernel.Table) (names []string, only bool) {
	if !reflect.DeepEqual(withoutElements(a), withoutElements(b)) {
		return nil, false
	}
	others := slices.Concat(b.Sets, b.Maps)
	for i, s := range slices.Concat(a.Sets, a.Maps) {
		if slices.Equal(s.Elements, others[i].Elements) {
			continue
		}
		if s.IsConstant() {
			return nil, false
		}
		names = append(names, s.Name)
	}
	return names, true
}

func withoutElements(t kernel.Table) kernel.Table {
	bare := func(sets []kernel.TableSet) (list []kernel.TableSet) {
		for _, s := range sets {
			s.Elements = nil
			list = append(list, s)
		}
		return list
	}
	t.Sets, t.Maps = bare(t.Sets), bare(t.Maps)
	return t
}
