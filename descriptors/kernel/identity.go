package kernel

import (
	"slices"
	"strings"
	"sync"
)

// The ledger decides whose a link is. Once a link was made, its entry says which one it is:
// its namespace, index and type. An index is not unique for all time: a link may be deleted,
// and another one made with its index, and a namespace may get the inode of one that has gone.
// So one thing more has to agree that nobody else has by chance: the mark, the group, or the
// MAC address. As long as that is so, others may change the rest, and a mark on another link
// is a copy and proves nothing. The ledger also keeps the copies that were seen: they stay
// foreign when the entry of the original has gone.

// Identified reports whether the entry says which link was made.
func (e Entry) Identified() bool {
	return e.Identity != nil && e.Index != 0 && !e.Adopted() && strings.HasPrefix(e.ID, interfaces)
}

// IsLink reports whether a link is the one that an entry identifies.
func (o *Owner) IsLink(e Entry, l Link) bool {
	return e.Identified() && e.NS == l.NS && e.Index == l.Index && e.Identity.Type == l.Type &&
		(l.Alias == o.Mark(e.ID) || l.Group == o.Group() || l.MAC != "" && l.MAC == e.Identity.MAC)
}

// Resembles reports whether a link that bears the mark of an entry can be its object although
// it is not at the recorded place: the link was moved to another namespace, or the entry is
// older than the link. The caller makes sure that nothing is at the recorded place.
func (o *Owner) Resembles(e Entry, l Link) bool {
	if !e.Identified() || l.Alias != o.Mark(e.ID) || l.Type != e.Identity.Type || o.IsCopy(l) {
		return false
	}
	if l.MAC != "" && l.MAC == e.Identity.MAC {
		return true
	}
	if e.NS != l.NS {
		return l.MAC == "" && l.Group == o.Group() && e.Index == l.Index
	}
	return l.Group == o.Group() && e.Identity.Name == l.Name
}

// Marked reports whether a link bears mark and group of a key.
func (o *Owner) Marked(key string, l Link) bool {
	return l.Alias == o.Mark(key) && l.Group == o.Group()
}

// Saw notes how links of ours look, so that they are recognized without their marks. What the
// ledger does not name, or names in another namespace, is not noted.
func (o *Owner) Saw(own ...OwnLink) {
	var ids []string
	links := map[string]Link{}
	for _, l := range own {
		if e, ok := o.Entry(l.Key); ok {
			if _, changed := e.seen(l.Link); changed {
				ids, links[l.Key] = append(ids, l.Key), l.Link
			}
		}
	}
	if len(ids) == 0 {
		return
	}
	o.ledger.Amend(func(e Entry) (Entry, bool) {
		now, changed := e.seen(links[e.ID])
		if changed = changed && e.Boot == o.boot; changed {
			o.located.replace(e, now)
		}
		return now, changed
	}, ids...)
}

// Made notes that the object of an entry was made: what stands at its place and says the same
// is ours, even if others have changed its mark since.
func (o *Owner) Made(id string) {
	o.ledger.Amend(func(e Entry) (Entry, bool) {
		if e.Identity != nil || e.Boot != o.boot {
			return e, false
		}
		e.Identity = &Identity{}
		return e, true
	}, id)
}

// SawNamespace notes by which cookie a namespace that Plumb made is recognized.
func (o *Owner) SawNamespace(id string, cookie uint64) {
	if e, ok := o.Entry(id); !ok || cookie == 0 || e.Identity != nil && e.Identity.Cookie == cookie {
		return
	}
	o.ledger.Amend(func(e Entry) (Entry, bool) {
		e.Identity = &Identity{Cookie: cookie}
		return e, e.Boot == o.boot
	}, id)
}

// IsNamespace reports whether the ledger knows a namespace by its cookie to be that of the
// entry. told is false if it cannot tell.
func (e Entry) IsNamespace(cookie uint64) (same, told bool) {
	if e.Identity == nil || e.Identity.Cookie == 0 || cookie == 0 {
		return false, false
	}
	return e.Identity.Cookie == cookie, true
}

// seen is the entry of a link that looks so, and whether that is another one.
func (e Entry) seen(l Link) (Entry, bool) {
	if e.Adopted() || e.NS != l.NS {
		return e, false
	}
	now := e
	now.Index, now.Identity = l.Index, &Identity{Name: l.Name, Type: l.Type, MAC: l.MAC}
	return now, !now.Equal(e)
}

// LinkKey is the key whose link it is, by the ledger, or by its mark if the ledger says
// nothing else. The key is empty when the mark was cut.
func (o *Owner) LinkKey(l Link) (key string, ours bool) {
	if id := o.located.key(l.Ref()); id != "" {
		if e, ok := o.Entry(id); ok && (e.Adopted() || o.IsLink(e, l)) {
			return id, true
		}
	}
	key, ours = o.MarkedKey(l.Alias)
	if !ours || !strings.HasPrefix(key, interfaces) {
		return key, ours
	}
	if e, ok := o.Entry(key); ok && e.Identified() && !o.Resembles(e, l) || o.IsCopy(l) {
		return "", false
	}
	return key, true
}

// FindLink reads the link of an interface's entry: the one that it identifies, or else the
// one in its namespace that bears its mark. ErrNotExist if there is none.
func (o *Owner) FindLink(k Kernel, e Entry) (Link, error) {
	if e.Adopted() {
		return k.LinkByIndex(e.NS, e.Index)
	}
	if e.Identified() {
		l, err := k.LinkByIndex(e.NS, e.Index)
		if err == nil && o.IsLink(e, l) {
			return l, nil
		}
		if err != nil && !IsGone(err) {
			return Link{}, err
		}
	}
	links, err := k.Links(e.NS)
	for _, l := range links {
		if l.Alias == o.Mark(e.ID) && !o.IsCopy(l) && (!e.Identified() || o.Resembles(e, l)) {
			return l, nil
		}
	}
	if err == nil {
		err = ErrNotExist
	}
	return Link{}, err
}

// OursAmong picks from the links of one namespace those that are ours: by the entries, or by
// their marks where the entries do not say otherwise. A mark that was cut names no key;
// known, if not nil, finds it among the marks of the keys that are known.
func (o *Owner) OursAmong(ns NS, links []Link, entries []Entry, known func(mark string) (key string)) []OwnLink {
	at, recorded := map[int]Entry{}, make(map[string]Entry, len(entries))
	for _, e := range entries {
		recorded[e.ID] = e
		if e.NS == ns && (e.Adopted() || e.Identified()) {
			at[e.Index] = e
		}
	}
	var own []OwnLink
	taken := map[string]bool{}
	rest := slices.Clone(links)
	rest = slices.DeleteFunc(rest, func(l Link) bool {
		e, ok := at[l.Index]
		adopted := e.Adopted()
		if !ok || !adopted && !o.IsLink(e, l) {
			return false
		}
		own = append(own, OwnLink{Link: l, Key: e.ID, Adopted: adopted})
		taken[e.ID] = true
		return !adopted
	})
	for _, l := range rest {
		key, ours := o.MarkedKey(l.Alias)
		if ours && key == "" && known != nil {
			key = known(l.Alias)
		}
		if !ours || !strings.HasPrefix(key, interfaces) || taken[key] || o.IsCopy(l) {
			continue
		}
		if e, ok := recorded[key]; !ok || !e.Identified() || e.NS == ns && o.Resembles(e, l) {
			own = append(own, OwnLink{Link: l, Key: key})
		}
	}
	return own
}

// copies holds the entries of links that bear a copy of our mark; they are of no kind.
const copies = "copy/"

// maxCopies bounds the copies that are kept: others may make any number of them.
const maxCopies = 1024

// IsCopy reports whether a link is known to bear a copy of our mark.
func (o *Owner) IsCopy(l Link) bool {
	o.located.mu.Lock()
	defer o.located.mu.Unlock()
	c, known := o.located.copies[l.Ref()]
	return known && c == (Identity{Type: l.Type, MAC: l.MAC})
}

// Copies is how many links are known to bear a copy of our mark.
func (o *Owner) Copies() int {
	o.located.mu.Lock()
	defer o.located.mu.Unlock()
	return len(o.located.copies)
}

// NoteCopy keeps in the ledger that a link of others bears a copy of our mark. It reports
// whether that is new.
func (o *Owner) NoteCopy(l Link) (isNew bool) {
	if o.IsCopy(l) {
		return false
	}
	o.located.mu.Lock()
	full := len(o.located.copies) >= maxCopies
	o.located.mu.Unlock()
	if full {
		return false
	}
	e := Entry{ID: copies + l.Ref().String(), NS: l.NS, Boot: o.boot, Index: l.Index, Mark: l.Alias, Identity: &Identity{Type: l.Type, MAC: l.MAC}}
	if o.ledger.Add(e) != nil {
		return false // the next reading tries again
	}
	o.located.replace(Entry{}, e)
	return true
}

// ForgetCopies drops the notes of the links in a namespace that are gone, or no longer bear
// our mark.
func (o *Owner) ForgetCopies(ns NS, links []Link) {
	o.located.mu.Lock()
	gone := map[string]bool{}
	for ref := range o.located.copies {
		if ref.NS == ns {
			gone[copies+ref.String()] = true
		}
	}
	o.located.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	for _, l := range links {
		if _, marked := o.MarkedKey(l.Alias); marked && o.IsCopy(l) {
			delete(gone, copies+l.Ref().String())
		}
	}
	for id := range gone {
		o.Remove(id)
	}
}

// located tells which interfaces the ledger names at which links, and which links bear copies
// of their marks. The zero value is empty.
type located struct {
	mu     sync.Mutex
	at     map[LinkRef]string
	copies map[LinkRef]Identity
}

// replace notes that an entry takes the place of another one.
func (x *located) replace(before, e Entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if strings.HasPrefix(before.ID, copies) {
		delete(x.copies, LinkRef{NS: before.NS, Index: before.Index})
	}
	if strings.HasPrefix(e.ID, copies) && e.Identity != nil {
		if x.copies == nil {
			x.copies = map[LinkRef]Identity{}
		}
		x.copies[LinkRef{NS: e.NS, Index: e.Index}] = *e.Identity
	}
	if ref := before.link(); ref.Index != 0 && x.at[ref] == before.ID {
		delete(x.at, ref)
	}
	if ref := e.link(); ref.Index != 0 {
		if x.at == nil {
			x.at = map[LinkRef]string{}
		}
		x.at[ref] = e.ID
	}
}

// key is the interface at a link, "" if there is none.
func (x *located) key(ref LinkRef) string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.at[ref]
}

// link is where an entry of an interface says that its link is; zero if it does not.
func (e Entry) link() LinkRef {
	if !strings.HasPrefix(e.ID, interfaces) || !e.Adopted() && !e.Identified() {
		return LinkRef{}
	}
	return LinkRef{NS: e.NS, Index: e.Index}
}
