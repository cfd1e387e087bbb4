package iface

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Neighbours cache the MAC of an address. A link that is created again, after a deletion or a
// restart of its container, therefore gets its previous MAC unless its value names one, and a
// changed MAC is announced.

// keepsMAC reports whether the kernel would give a link of this type a random MAC. Links of other
// types have none, or inherit the MAC of a port or of the parent.
func keepsMAC(v *models.Interface) bool {
	switch v.GetLink().(type) {
	case *models.Interface_Veth, *models.Interface_Bridge, *models.Interface_Vxlan, *models.Interface_Macvlan,
		*models.Interface_Geneve, *models.Interface_Gretap, *models.Interface_Tap, *models.Interface_Dummy:
		return true
	}
	return false
}

// noteLink records the link of a key that has been read or created.
func (d *iface) noteLink(k scheduler.Key, l kernel.Link) {
	d.Announcer.Saw(l)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noteMAC(k, l)
}

// noteMAC records the MAC of a link, unless it is that of a bridge without ports: the kernel creates no link with
// that MAC. d.mu is held.
func (d *iface) noteMAC(k scheduler.Key, l kernel.Link) {
	if l.MAC == "" || l.MAC == kernel.ZeroMAC {
		return
	}
	if d.macs == nil {
		d.macs = map[scheduler.Key]hardware{}
	}
	d.macs[k] = hardware{l.Type, l.MAC}
}

// hardware is a MAC with the type of its link.
type hardware struct{ linkType, mac string }

// lastMAC returns the previous MAC of the link of a key, "" if it is unknown or was that of a link
// of another type: a VLAN, for example, has the MAC of its parent.
func (d *iface) lastMAC(k scheduler.Key, v *models.Interface) string {
	if !keepsMAC(v) {
		return ""
	}
	linkType := v.LinkType()
	if linkType == "tap" {
		linkType = "tun"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if had := d.macs[k]; had.linkType == linkType {
		return had.mac
	}
	return ""
}

// keepMACs sets the previous MACs of a link and of its veth peer in the request that creates the
// link again.
func (d *iface) keepMACs(w *wish, s *kernel.LinkSpec) {
	if s.MAC == "" {
		s.MAC = d.lastMAC(w.key, w.value)
	}
	if s.Veth != nil && s.Veth.PeerMAC == "" {
		s.Veth.PeerMAC = d.lastMAC(w.peer.key, w.peer.value)
	}
}

// forgetMAC drops the MAC of a deleted link, unless the link is still desired.
func (d *iface) forgetMAC(k scheduler.Key) {
	if _, wanted := d.Interfaces.Wanted(k); wanted {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.macs, k)
}

// forgetMACs drops the MACs of all keys that are neither desired nor present.
func (d *iface) forgetMACs(there map[scheduler.Key]kernel.Link) {
	d.mu.Lock()
	var lacking []scheduler.Key
	for k := range d.macs {
		if _, ok := there[k]; !ok {
			lacking = append(lacking, k)
		}
	}
	d.mu.Unlock()
	for _, k := range lacking {
		d.forgetMAC(k)
	}
}

// announceSetUp announces the addresses of links that have been set up.
func (d *iface) announceSetUp(ws []*wish) {
	var done []kernel.Link
	for _, w := range ws {
		if w.err == nil {
			l := w.link
			l.Master = w.master.Index
			done = append(done, l)
		}
	}
	if len(done) > 0 {
		d.Announcer.SetUp(done...)
	}
}

// announceMoved announces the addresses of an existing link if the patch may have changed its MAC
// or its place in the topology.
func (d *iface) announceMoved(l kernel.Link, p kernel.LinkPatch) {
	if p.MAC == nil && p.Master == nil && (p.Up == nil || !*p.Up) {
		return
	}
	if p.MAC != nil {
		l.MAC = *p.MAC
	}
	if p.Master != nil {
		l.Master = *p.Master
	}
	d.Announcer.Moved(l)
}
