package iface

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// needs: the namespace, what the type stands on, the master.
func needs(k scheduler.Key, v *models.Interface) []scheduler.Need {
	list := selector.Needs(v.GetNamespace())
	list = append(list, typeOf(v).needs(k, v)...)
	if v.GetMaster() != "" {
		if v.GetBridgePort() != nil {
			list = append(list, scheduler.If(kind.OnInterface(v.GetMaster(), "the bridge that it joins"), isBridge))
		} else {
			list = append(list, scheduler.If(kind.OnInterface(v.GetMaster(), "the interface that it joins"), takesMembers))
		}
	}
	return list
}

// takesMembers reports whether others can join an interface. What an existing one
// is only the kernel can tell.
func takesMembers(_ scheduler.Key, v *models.Interface, _ kernel.LinkRef) bool {
	return v.GetBridge() != nil || v.GetVrf() != nil || v.GetBond() != nil || v.GetExisting() != nil
}

// isBridge reports whether an interface is a bridge, or may be one.
func isBridge(_ scheduler.Key, v *models.Interface, _ kernel.LinkRef) bool {
	return v.GetBridge() != nil || v.GetExisting() != nil
}

// claims: a name in a namespace is one interface's. Two selectors of one
// namespace cannot be told here; there the kernel refuses the second.
func claims(k scheduler.Key, v *models.Interface) []scheduler.Claim {
	list := []scheduler.Claim{claim("host name", v.EffectiveHostName(string(k)), v.GetNamespace())}
	for _, name := range v.GetAlternativeNames() {
		list = append(list, claim("alternative name", name, v.GetNamespace()))
	}
	return list
}

func claim(what, name string, in *models.Namespace) scheduler.Claim {
	return scheduler.Claim{ID: selector.Text(in) + "|" + name, What: fmt.Sprintf("%s %s in %s", what, name, in.Text())}
}

// derive splits off the addresses, each an object of its own.
func derive(k scheduler.Key, v *models.Interface) []scheduler.Change {
	var list []scheduler.Change
	if v.GetBridge().GetForward() {
		list = append(list, scheduler.Set(scheduler.Key(models.ForwardKey(nameOf(k))), &models.Forward{Interface: nameOf(k)}))
	}
	if v.GetLinkOnly() {
		return list
	}
	seen, positions := map[scheduler.Key]bool{}, v.AddressPositions(nameOf(k))
	for _, text := range v.GetAddresses() {
		key := scheduler.Key(models.AddressKey(nameOf(k), text))
		if seen[key] {
			continue
		}
		seen[key] = true
		a := &models.Address{Interface: nameOf(k)}
		if claim, ok := strings.CutPrefix(text, models.ClaimPrefix); ok {
			a.Claim = claim
		} else {
			a.Address = strings.TrimPrefix(string(key), models.AddressPrefix(nameOf(k)))
		}
		if a.Claim != "" || strings.Contains(a.Address, ":") { // a claim may hold an IPv6 address
			a.DuplicateDetection = v.GetDuplicateDetection()
		}
		a.Position = positions[string(key)]
		list = append(list, scheduler.Set(key, a))
	}
	return list
}
