package cni

import (
	"slices"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
)

// setting is a sysctl of a container's namespace that one of its attachments asks for. Several
// may ask for the same value of one; the first holds it, and when it leaves another inherits it.
// Of different values the scheduler refuses the second.
type setting struct {
	want  network.Want
	value string
	held  bool
}

// agree separates the settings of the namespace from what an attachment wants: those that
// another attachment of the container holds with the same value are not wanted again. Of a
// restored attachment the record says which it holds. The lock is held.
func (s *Service) agree(c Call, wants []network.Want) (rest []network.Want, settings map[string]setting) {
	settings = map[string]setting{}
	for _, w := range wants {
		v, ok := w.Value.(*models.Sysctl)
		if !ok || v.GetInterface() != "" {
			rest = append(rest, w)
			continue
		}
		x := setting{want: w, value: v.EffectiveValue()}
		if c.restored {
			x.held = slices.Contains(c.recorded, w.Key)
		} else {
			x.held = s.holder(c.Inode, v.Path(), x.value) == ""
		}
		settings[v.Path()] = x
		if x.held {
			rest = append(rest, w)
		}
	}
	return rest, settings
}

// holder returns the key of the sysctl that gives a place in a namespace a value, "" if there
// is none. The lock is held.
func (s *Service) holder(inode uint64, place, value string) (key string) {
	for _, sh := range s.nets {
		for _, u := range sh.users {
			if x, ok := u.settings[place]; ok && u.inode == inode && x.held && x.value == value {
				return x.want.Key
			}
		}
	}
	return ""
}

// inherit returns the settings of a namespace that an attachment asked for and none holds any
// more, and notes who holds them from now on. The lock is held.
func (s *Service) inherit(inode uint64) (wants []network.Want) {
	for _, a := range inOrder(s.store.Of("")) {
		sh := s.nets[a.Key.Network]
		if a.Inode != inode || sh == nil {
			continue
		}
		for place, x := range sh.users[a.Key].settings {
			if x.held || s.holder(inode, place, x.value) != "" {
				continue
			}
			x.held = true
			sh.users[a.Key].settings[place] = x
			wants = append(wants, x.want)
			if err := s.store.Want(a.Key, x.want.Key); err != nil {
				s.log.Warn("cannot record that an attachment holds a setting", "attachment", a.Key.String(), "key", x.want.Key, "error", err)
			}
		}
	}
	return wants
}
