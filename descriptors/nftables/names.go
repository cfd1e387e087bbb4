package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// nft resolves some names in rules when it loads a table, and the kernel then compares numbers. The
// ledger therefore records the numbers, and the table is written again when a name resolves to
// another one. Link events report changes of indexes; a poll finds those of users, groups and
// cgroups. Until the table is written, its rules compare the old numbers.

// namesPoll is how often users, groups and cgroups are looked up.
const namesPoll = 10 * time.Second

// byName begins the ledger's text for a table with names. It is all of it if no name is resolved.
const byName = "by name"

// namesOf are the names of one table, and the objects that they resolved to when the table was last
// read or written.
type namesOf struct {
	models.ResolvedNames
	links, host []string
}

// text returns the ledger's text for the names; "" for a table without names.
func (n namesOf) text() string {
	if !n.Any() {
		return ""
	}
	return strings.Join(slices.Concat([]string{byName}, n.links, n.host), ", ")
}

// leads resolves the names of a table.
func (d *nftables) leads(v *models.Nftables, ns kernel.NS) (n namesOf, err error) {
	n.ResolvedNames = v.Resolves()
	for _, name := range n.Links {
		l, err := d.Kernel.Link(ns, name)
		switch {
		case errors.Is(err, kernel.ErrNotExist):
		case err != nil:
			return n, fmt.Errorf("read the link %s: %w", name, err)
		default:
			n.links = append(n.links, linkLed(name, l.Index))
		}
	}
	n.host = onHost(n.ResolvedNames)
	return n, nil
}

func linkLed(name string, index int) string { return fmt.Sprintf("%s is link %d", name, index) }

// onHost resolves the names of users, groups and cgroups.
func onHost(n models.ResolvedNames) (list []string) {
	for _, name := range n.Accounts {
		if u, err := user.Lookup(name); err == nil {
			list = append(list, name+" is user "+u.Uid)
		}
		if g, err := user.LookupGroup(name); err == nil {
			list = append(list, name+" is group "+g.Gid)
		}
	}
	for _, name := range n.Cgroups {
		const root = "/sys/fs/cgroup/" // as in nft
		var st syscall.Stat_t
		if path := filepath.Join(root, name); strings.HasPrefix(path, root) && syscall.Stat(path, &st) == nil {
			list = append(list, fmt.Sprintf("%s is cgroup %d", name, st.Ino))
		}
	}
	return list
}

// noteNames records the names of a table.
func (d *nftables) noteNames(k scheduler.Key, n namesOf) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.names, k)
	if n.Any() {
		d.names[k] = n
	}
}

// linkMoved returns the tables of a namespace that name a link which was created, deleted or
// renamed. d.mu is held.
func (d *nftables) linkMoved(ns kernel.NS, l kernel.Link, deleted bool) (keys []scheduler.Key) {
	if len(d.names) == 0 {
		return nil
	}
	now, index := linkLed(l.Name, l.Index), linkLed("", l.Index)
	for _, k := range d.keysIn(ns, false) {
		n := d.names[k]
		led := slices.Contains(n.links, now)
		renamed := !led && slices.ContainsFunc(n.links, func(was string) bool { return strings.HasSuffix(was, index) })
		if deleted && led || !deleted && (renamed || !led && slices.Contains(n.Links, l.Name)) {
			keys = append(keys, k)
		}
	}
	return keys
}

// accountsMoved returns the tables whose users, groups or cgroups now resolve to other numbers.
func (d *nftables) accountsMoved(context.Context) (keys []scheduler.Key) {
	d.mu.Lock()
	all := maps.Clone(d.names)
	d.mu.Unlock()
	for k, n := range all {
		if len(n.Accounts)+len(n.Cgroups) > 0 && !slices.Equal(n.host, onHost(n.ResolvedNames)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// stale returns a copy of a table with a note in one rule or element that uses names: the names now
// resolve to other objects. The note lists these, so that the value changes whenever they do.
func stale(asked *models.Nftables, now namesOf) *models.Nftables {
	v, note := proto.CloneOf(asked), " # written when its names led elsewhere"
	if led := slices.Concat(now.links, now.host); len(led) > 0 {
		note += "; now " + strings.Join(led, ", ")
	}
	mark := func(texts []string, part func(text []string) *models.Nftables) bool {
		for i := range texts {
			if part(texts[i : i+1]).Resolves().Any() {
				texts[i] += note
				return true
			}
		}
		return false
	}
	for _, c := range v.GetChains() {
		if mark(c.GetRules(), func(r []string) *models.Nftables { return &models.Nftables{Chains: []*models.Chain{{Rules: r}}} }) {
			return v
		}
	}
	for _, s := range v.GetSets() {
		if mark(s.GetElements(), func(e []string) *models.Nftables {
			return &models.Nftables{Sets: []*models.NamedSet{{Type: s.Type, Elements: e}}}
		}) {
			return v
		}
	}
	for _, m := range v.GetMaps() {
		if mark(m.GetElements(), func(e []string) *models.Nftables {
			return &models.Nftables{Maps: []*models.NamedMap{{Type: m.Type, Data: m.Data, Elements: e}}}
		}) {
			return v
		}
	}
	return v
}

// unresolved are nft's errors for names that it cannot resolve now, but may resolve later.
var unresolved = []string{"Interface does not exist", "User does not exist", "Group does not exist", "cgroupv2 path fails"}

func isUnresolved(text string) bool {
	return slices.ContainsFunc(unresolved, func(s string) bool { return strings.Contains(text, s) })
}
