package sysctl_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// inBlue is a bench whose settings are in blue, with the links b and c.
type inBlue struct{ *bench }

func newInBlue(t *testing.T) *inBlue {
	t.Helper()
	b := &inBlue{newBench(t)}
	b.link(b.blueNS, b.blue.Path, "c")
	for _, place := range []string{"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv6/conf/all/disable_ipv6"} {
		b.other(place, "0")
	}
	return b
}

// other has somebody else write a setting.
func (b *inBlue) other(place, value string) {
	b.t.Helper()
	b.blue.Sysctl(b.t, strings.TrimPrefix(place, "net/"), value)
}

func (b *inBlue) want(place, value string) {
	b.t.Helper()
	b.must(strings.ReplaceAll(place, "/", "_"), fmt.Sprintf(`{"key":%q,"value":%q,"namespace":{"netns":"blue"}}`, place, value))
}

func (b *inBlue) withdraw(place string) {
	b.t.Helper()
	if err := b.delete(strings.ReplaceAll(place, "/", "_")); err != nil {
		b.t.Fatal(err)
	}
}

func (b *inBlue) all(want map[string]string, when string) {
	b.t.Helper()
	for _, place := range slices.Sorted(maps.Keys(want)) {
		if got, err := b.Sysctl(b.blueNS, place); err != nil || got != want[place] {
			b.t.Errorf("%s: %s is %q, %v, want %q", when, place, got, err, want[place])
		}
	}
}

// acceptRedirects has the links in blue be such as accept redirects.
func (b *inBlue) acceptRedirects() {
	for _, e := range b.ledger.Entries("interface/") {
		e.Value = models.Encode(&models.Interface{AcceptRedirects: new(true)})
		if err := b.ledger.Add(e); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestDependents: the values of settings that the kernel writes with others depend neither on the
// order in which these are written nor on that in which they are withdrawn.
func TestDependents(t *testing.T) {
	const (
		forward, all6  = "net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"
		b4, c4, b6, c6 = "net/ipv4/conf/b/forwarding", "net/ipv4/conf/c/forwarding", "net/ipv6/conf/b/forwarding", "net/ipv6/conf/c/forwarding"
		allOff, bOff   = "net/ipv6/conf/all/disable_ipv6", "net/ipv6/conf/b/disable_ipv6"
		cOff           = "net/ipv6/conf/c/disable_ipv6"
		def, bLog      = "net/ipv4/conf/default/log_martians", "net/ipv4/conf/b/log_martians"
	)
	type values = map[string]string
	type step struct {
		does string // + PLACE=VALUE is wanted, - PLACE withdrawn, ! PLACE=VALUE written by others
		is   values
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"parent first", []step{
			{"!" + c4 + "=1", nil},
			{"+" + forward + "=1", values{forward: "1", b4: "1", c4: "1"}},
			{"+" + b4 + "=0", values{b4: "0", c4: "1"}},
			{"-" + forward, values{forward: "0", b4: "0", c4: "1"}},
			{"-" + b4, values{b4: "0", c4: "1"}},
		}},
		{"parent later", []step{
			{"!" + b4 + "=1", nil},
			{"+" + b4 + "=0", values{b4: "0"}},
			{"+" + forward + "=1", values{forward: "1", b4: "0", c4: "1"}},
			{"-" + b4, values{b4: "1"}},
			{"-" + forward, values{forward: "0", b4: "1", c4: "0"}},
		}},
		{"parent changes", []step{
			{"!" + b4 + "=1", nil},
			{"+" + forward + "=1", nil},
			{"+" + b4 + "=1", values{b4: "1"}},
			{"+" + forward + "=0", values{b4: "1", c4: "0"}},
			{"-" + b4, values{b4: "0"}},
			{"-" + forward, values{b4: "1", c4: "0"}},
		}},
		{"parent as it was", []step{
			{"!" + forward + "=1", nil},
			{"!" + b4 + "=0", nil},
			{"+" + forward + "=1", values{b4: "0"}},
			{"+" + b4 + "=1", values{b4: "1"}},
			{"-" + b4, values{b4: "0", c4: "1"}},
			{"-" + forward, values{forward: "1", b4: "0"}},
		}},
		{"parent as it was at the end", []step{
			{"!" + forward + "=1", nil},
			{"!" + b4 + "=0", nil},
			{"+" + b4 + "=0", nil},
			{"+" + forward + "=0", nil},
			{"+" + forward + "=1", nil},
			{"-" + forward, values{b4: "0", c4: "1"}},
			{"-" + b4, values{b4: "0"}},
		}},
		{"changed by others", []step{
			{"!" + b4 + "=1", nil},
			{"+" + b4 + "=0", nil},
			{"+" + forward + "=1", nil},
			{"!" + forward + "=0", values{c4: "0"}},
			{"!" + b4 + "=1", values{b4: "1"}},
			{"+" + forward + "=1", values{b4: "0", c4: "1"}},
			{"+" + b4 + "=0", values{b4: "0"}},
			{"-" + forward, values{b4: "0", c4: "0"}},
			{"-" + b4, values{b4: "1"}},
		}},
		{"others have their own", []step{
			{"+" + forward + "=1", values{c4: "1"}},
			{"!" + c4 + "=0", nil},
			{"+" + b4 + "=1", values{c4: "0"}},
			{"-" + forward, values{forward: "0", c4: "0", b4: "1"}},
			{"-" + b4, values{b4: "0"}},
		}},
		{"forwarding of IPv6", []step{
			{"!" + c6 + "=1", nil},
			{"+" + b6 + "=0", nil},
			{"+" + all6 + "=1", values{b6: "0", c6: "1", "net/ipv6/conf/default/forwarding": "1"}},
			{"-" + all6, values{b6: "0", c6: "1", "net/ipv6/conf/default/forwarding": "0"}},
			{"-" + b6, values{b6: "0"}},
		}},
		{"IPv6 off", []step{
			{"!" + cOff + "=1", nil},
			{"+" + allOff + "=1", values{bOff: "1"}},
			{"+" + bOff + "=0", values{bOff: "0", cOff: "1"}},
			{"-" + bOff, values{bOff: "1"}},
			{"-" + allOff, values{bOff: "0", cOff: "1", allOff: "0"}},
		}},
		{"value equal to the default", []step{
			{"!" + def + "=0", nil},
			{"+" + bLog + "=0", nil},
			{"+" + def + "=1", values{bLog: "0"}},
			{"-" + def, values{bLog: "0"}},
			{"-" + bLog, values{bLog: "0"}},
		}},
		{"value that others set to the default", []step{
			{"!" + def + "=0", nil},
			{"!" + bLog + "=1", nil},
			{"!" + bLog + "=0", nil},
			{"+" + bLog + "=2", nil},
			{"+" + def + "=1", nil},
			{"-" + bLog, values{bLog: "0"}},
			{"-" + def, values{bLog: "0"}},
		}},
		{"value that followed the default", []step{
			{"!" + def + "=0", nil},
			{"+" + def + "=1", nil},
			{"+" + bLog + "=2", values{bLog: "2"}},
			{"-" + def, values{bLog: "2"}},
			{"-" + bLog, values{bLog: "0"}},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newInBlue(t)
			for _, s := range c.steps {
				place, value, _ := strings.Cut(s.does[1:], "=")
				switch s.does[0] {
				case '+':
					b.want(place, value)
				case '-':
					b.withdraw(place)
				case '!':
					b.other(place, value)
				}
				b.all(s.is, s.does)
				b.restart()
			}
			if got := b.look(); got != "" {
				t.Errorf("left %s", got)
			}
		})
	}
}

// TestDependentsAfterCrashes: wherever the operations on a setting are cut short, all ends as if they
// were not.
func TestDependentsAfterCrashes(t *testing.T) {
	const forward, b4, c4 = "net/ipv4/ip_forward", "net/ipv4/conf/b/forwarding", "net/ipv4/conf/c/forwarding"
	for _, point := range []string{"sysctl/recorded", "sysctl/made", "sysctl/deleted"} {
		b := newInBlue(t)
		b.other(b4, "1")
		b.other(c4, "1")
		b.want(b4, "0")
		again := func(act func() error) {
			t.Helper()
			b.fail = point
			b.restart()
			_ = act()
			b.fail = ""
			b.restart()
			if err := act(); err != nil {
				t.Error(err)
			}
		}
		for _, value := range []string{"1", "0", "1"} {
			again(func() error {
				return b.create("forward", fmt.Sprintf(`{"key":"net.ipv4.ip_forward","value":%q,"namespace":{"netns":"blue"}}`, value))
			})
			b.all(map[string]string{forward: value, b4: "0", c4: value}, point)
		}
		again(func() error { return b.delete("forward") })
		b.all(map[string]string{forward: "0", b4: "0", c4: "1"}, point)
		b.withdraw(b4)
		b.all(map[string]string{b4: "1"}, point)
	}
}

// TestRedirectsStayRefused: the kernel lets all links of a namespace accept redirects when it ends
// to forward. Where links of ours refuse them it is not so, also if Plumb ended it.
func TestRedirectsStayRefused(t *testing.T) {
	const forward, all = "net/ipv4/ip_forward", kernel.AllRedirects
	for _, refused := range []bool{true, false} {
		b := newInBlue(t)
		ends := map[string]string{all: "0"}
		if !refused {
			b.acceptRedirects()
			ends[all] = "1"
		}
		b.want(forward, "1")
		b.all(map[string]string{all: "0"}, "forwards")
		b.want(forward, "0")
		b.all(ends, "forwards no more")
		b.want(forward, "1")
		b.withdraw(forward)
		b.all(ends, "withdrawn")
		b.want(all, "1")
		b.want(forward, "1")
		b.all(map[string]string{all: "1"}, "wanted")
		b.withdraw(forward)
		b.all(map[string]string{all: "1"}, "wanted")
		b.withdraw(all)
	}
}

// TestParentsFirst: of settings that are made together those come first with which the kernel
// writes others.
func TestParentsFirst(t *testing.T) {
	b := newInBlue(t)
	b.other("net/ipv4/conf/b/forwarding", "1")
	ops := []*scheduler.Op[*models.Sysctl, kernel.LinkRef]{}
	for i, v := range decode(t, `{"key":"net.ipv4.conf.b.forwarding","value":"0","namespace":{"netns":"blue"}}
{"key":"net.ipv4.ip_forward","value":"1","namespace":{"netns":"blue"}}`) {
		ops = append(ops, &scheduler.Op[*models.Sysctl, kernel.LinkRef]{Key: scheduler.Key(models.SysctlKey(fmt.Sprint(i))), Value: v})
	}
	writes := b.Writes()
	b.kind.CreateBatch(t.Context(), ops)
	if ops[0].Err != nil || ops[1].Err != nil || b.Writes() != writes+2 {
		t.Errorf("%v, %v, written %d times, want 2", ops[0].Err, ops[1].Err, b.Writes()-writes)
	}
	b.all(map[string]string{"net/ipv4/ip_forward": "1", "net/ipv4/conf/b/forwarding": "0"}, "made")
}

// family is a parent with its dependents in the model of TestDependentsAtRandom.
type family struct {
	parent   string
	children map[string]func(string) string
}

func same(v string) string { return v }

func not(v string) string { return map[string]string{"0": "1", "1": "0"}[v] }

var families = []family{
	{"net/ipv4/ip_forward", map[string]func(string) string{"net/ipv4/conf/default/forwarding": same, "net/ipv4/conf/b/forwarding": same,
		"net/ipv4/conf/c/forwarding": same, "net/ipv4/conf/all/accept_redirects": not}},
	{"net/ipv6/conf/all/forwarding", map[string]func(string) string{"net/ipv6/conf/default/forwarding": same, "net/ipv6/conf/b/forwarding": same,
		"net/ipv6/conf/c/forwarding": same}},
	{"net/ipv6/conf/all/disable_ipv6", map[string]func(string) string{"net/ipv6/conf/default/disable_ipv6": same, "net/ipv6/conf/b/disable_ipv6": same}},
}

// model says what settings should be: what is wanted, else what the parent gives if Plumb wrote
// it, else what was there before.
type model struct {
	wanted, before map[string]string
	wrote          map[string]bool // parents
}

func (m *model) values() map[string]string {
	is := map[string]string{}
	for _, f := range families {
		of := func(place, otherwise string) string {
			if v, wanted := m.wanted[place]; wanted {
				return v
			}
			return otherwise
		}
		is[f.parent] = of(f.parent, m.before[f.parent])
		for child, gives := range f.children {
			value := m.before[child]
			if m.wrote[f.parent] {
				value = gives(is[f.parent])
			}
			is[child] = of(child, value)
		}
	}
	return is
}

// TestDependentsAtRandom plays random histories of wishes, withdrawals, changes of others and
// restarts against a model. A seed is one history.
func TestDependentsAtRandom(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { playDependents(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func playDependents(t *testing.T, r *rand.Rand) {
	b := newInBlue(t)
	b.acceptRedirects()
	m := &model{wanted: map[string]string{}, before: map[string]string{}, wrote: map[string]bool{}}
	parents, places := map[string]family{}, []string{}
	for _, f := range families {
		places = append(places, f.parent)
		parents[f.parent] = f
		for _, child := range slices.Sorted(maps.Keys(f.children)) {
			places = append(places, child)
			parents[child] = f
		}
	}
	digit := func() string { return fmt.Sprint(r.IntN(2)) }
	read := func(place string) string {
		value, err := b.Sysctl(b.blueNS, place)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, place := range places {
		b.other(place, digit())
	}
	for _, place := range places {
		m.before[place] = read(place)
	}
	var history []string
	withdraw := func(place string) {
		b.withdraw(place)
		delete(m.wanted, place)
		delete(m.wrote, place)
	}
	repair := func() {
		wanted := slices.Sorted(maps.Keys(m.wanted))
		r.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
		for _, place := range wanted {
			b.want(place, m.wanted[place])
		}
	}
	for range 30 {
		place, value := places[r.IntN(len(places))], digit()
		f := parents[place]
		_, wanted := m.wanted[place]
		_, under := m.wanted[f.parent]
		var step string
		switch r.IntN(8) {
		case 0, 1, 2:
			step = "want " + place + "=" + value
			if place == f.parent && read(place) != value {
				m.wrote[place] = true
			}
			b.want(place, value)
			m.wanted[place] = value
		case 3, 4:
			step = "withdraw " + place
			if wanted {
				withdraw(place)
			}
		case 5:
			step = "restart"
			b.restart()
		default: // what others write below a parent of ours is theirs, which the model leaves out
			step = "others " + place + "=" + value
			if under && !wanted {
				continue
			}
			changes := read(place) != value || strings.HasPrefix(place, "net/ipv6/conf/all/")
			b.other(place, value)
			if changes && place == f.parent {
				for child, gives := range f.children {
					if _, ours := m.wanted[child]; ours && !wanted {
						continue // nobody knows
					} else if !wanted {
						m.before[child] = gives(value)
					} else if !m.wrote[place] && !ours {
						m.before[child] = gives(m.before[place])
					}
				}
			}
			if !wanted {
				m.before[place] = value
			}
			repair()
		}
		history = append(history, step)
		b.all(m.values(), step)
		if t.Failed() {
			t.Fatalf("after\n%s", strings.Join(history, "\n"))
		}
	}
	for _, i := range r.Perm(len(places)) {
		if _, wanted := m.wanted[places[i]]; wanted {
			withdraw(places[i])
			history = append(history, "withdraw "+places[i])
		}
	}
	b.all(m.before, "withdrawn")
	if got := b.look(); got != "" || t.Failed() {
		t.Errorf("left %q after\n%s", got, strings.Join(history, "\n"))
	}
}
