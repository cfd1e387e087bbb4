package diagnosis

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// failed: what was tried last failed. What the kernel says seldom tells why.
func (d *diagnosis) failed() Finding {
	if found, known := d.down(); known {
		return found
	}
	if v := wish[*models.Interface](d.root.Status); v != nil {
		if found, known := d.mtu(v); known {
			return found
		}
		if found, known := d.mac(v); known {
			return found
		}
		if found, known := d.passthru(v); known {
			return found
		}
	}
	reason := strings.ToLower(d.root.Status.Reason)
	says := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(reason, w) {
				return true
			}
		}
		return false
	}
	switch {
	case d.kind == models.KindKeyFile && says("no such file"):
		return advice("write the file %s (wg genkey or wg genpsk makes a key; mode 0600), or correct %s", models.KeyFilePath(string(d.root.Key)), d.root.For)
	case d.kind == models.KindKeyFile:
		return advice("mend what the error names; the agent reads the file when it changes")
	case says("past its deadline"):
		return advice("it hangs in the kernel or in a program, and is looked at when that ends; agentctl history --key %s tells since when", d.root.Key)
	case says("operation not permitted", "permission denied"):
		return advice("the agent lacks a right: run it as root, with CAP_NET_ADMIN and CAP_SYS_ADMIN, outside of other user namespaces")
	case d.kind == models.KindSysctl && says("does not exist"):
		return advice("correct key of %s, or load the module that has the setting", d.root.Key)
	case says("its bridges have no vlans"):
		return advice("take bridge.vlan_filtering out of %s, or boot a kernel that has it", d.root.Key)
	case says("not supported", "unknown device type"):
		return advice("this kernel cannot do that: load its module, or use another type (agentctl explain %s)", d.kind)
	case says("no space left", "too many open files", "cannot allocate", "no buffer space"):
		return advice("the host lacks room for it; make some, and it is tried again by itself")
	case says("executable file not found", "nft: not found"):
		return advice("install the program, and it is tried again by itself")
	case says("file exists", "already exists", "not ours", "somebody else"):
		return advice("somebody else made one like it: remove that, or name another in %s", d.root.Key)
	case says("keeps changing", "flaps"):
		return advice("find out who else changes it: agentctl history --key %s", d.root.Key)
	}
	if d.root.Status.State == scheduler.Retrying && !d.root.Status.NextTry.IsZero() {
		return advice("mend what the error names; it is tried again at %s, or at once: agentctl resync %s", clock(d.root.Status.NextTry), d.root.Key)
	}
	return advice("mend what the error names, then have it tried again: agentctl resync %s", d.root.Key)
}

// isDown is how an error names an interface whose link is down.
var isDown = regexp.MustCompile(`\b(` + models.KindInterface + `/\S+) is down\b`)

// down: the kernel takes nothing over a link that is down, and no VLAN is up without its parent.
func (d *diagnosis) down() (Finding, bool) {
	m := isDown.FindStringSubmatch(d.root.Status.Reason)
	if m == nil {
		return Finding{}, false
	}
	s, _ := d.find(scheduler.Key(m[1]))
	switch v := wish[*models.Interface](s); {
	case !v.IsEnabled():
		return advice("enable %s in its value, or delete %s", m[1], d.root.Key), true
	case v.GetExisting() != nil:
		host := v.EffectiveHostName(m[1])
		return advice("set the link %s up in %s: ip link set %s up, or enabled: true in %s", host, v.GetNamespace().Text(), host, m[1]), true
	}
	return advice("it is tried again when %s is up, see agentctl why %s", m[1], m[1]), true
}

// Below is the key of the interface below the one that a root is about, "" if there is
// none. How it actually is just now is worth knowing.
func Below(r scheduler.Root) scheduler.Key {
	if p := parentOf(wish[*models.Interface](r.Status)); p != "" && r.Kind == scheduler.RootFailed {
		return scheduler.Key(models.InterfaceKey(p))
	}
	return ""
}

// parentOf is the logical name of the interface below, "" if there is none.
func parentOf(v *models.Interface) string {
	for _, p := range []string{v.GetMacvlan().GetParent(), v.GetVlan().GetParent(), v.GetIpvlan().GetParent(), v.GetVxlan().GetParent()} {
		if p != "" {
			return p
		}
	}
	return ""
}

// mtu: an interface on top of another takes no larger packets than that does.
func (d *diagnosis) mtu(v *models.Interface) (Finding, bool) {
	below, known := d.find(scheduler.Key(models.InterfaceKey(parentOf(v))))
	p, _ := below.Actual.(*models.Interface)
	if !known || p.GetMtu() == 0 || v.GetMtu() <= p.GetMtu() {
		return Finding{}, false
	}
	return Finding{
		Text:   fmt.Sprintf("%s: its mtu %d is above the %d of %s below it", d.root.Text, v.GetMtu(), p.GetMtu(), below.Key),
		Advice: fmt.Sprintf("set mtu of %s to %d or less, or raise that of %s", d.root.Key, p.GetMtu(), below.Key),
	}, true
}

// mac: of the links on one wire each has its own hardware address.
func (d *diagnosis) mac(v *models.Interface) (Finding, bool) {
	mac := v.GetMacAddress()
	if mac == "" {
		return Finding{}, false
	}
	for _, s := range d.facts.Keys {
		var has string
		switch a := s.Actual.(type) {
		case *models.Interface:
			has = a.GetMacAddress()
		case *models.HostLink:
			has = a.GetMacAddress()
		}
		if s.Key == d.root.Key || !strings.EqualFold(has, mac) {
			continue
		}
		return Finding{
			Text:   fmt.Sprintf("%s: %s has the mac_address %s already", d.root.Text, s.Key, mac),
			Advice: fmt.Sprintf("give %s another mac_address, or leave it to the kernel", d.root.Key),
		}, true
	}
	return Finding{}, false
}

// passthru: a macvlan in that mode is the only one on the interface below it. Of any other
// combination the kernel says no more than that it is invalid.
func (d *diagnosis) passthru(v *models.Interface) (Finding, bool) {
	m := v.GetMacvlan()
	if m == nil || !strings.Contains(d.root.Status.Reason, "invalid argument") {
		return Finding{}, false
	}
	below := models.InterfaceKey(m.Parent)
	for _, s := range d.facts.Keys {
		o, _ := s.Actual.(*models.Interface)
		beside := o.GetMacvlan()
		if s.Key == d.root.Key || beside.GetParent() != m.Parent || m.Mode != "passthru" && beside.GetMode() != "passthru" {
			continue
		}
		return Finding{
			Text:   fmt.Sprintf("%s: %s is a macvlan on %s too, and one in mode passthru is there alone", d.root.Text, s.Key, below),
			Advice: fmt.Sprintf("delete %s, give %s another parent, or have neither in mode passthru", s.Key, d.root.Key),
		}, true
	}
	if m.Mode != "passthru" {
		return Finding{}, false
	}
	return advice("a macvlan in mode passthru is alone on the interface below: if others made macvlans on %s, remove them, or take another mode", below), true
}
