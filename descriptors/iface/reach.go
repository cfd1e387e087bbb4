package iface

import (
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Neighbours remember the MACs of addresses. So a link that is created again, because it was
// deleted or its container was restarted, gets the MAC that it had, unless its value names one;
// and where a MAC has changed neighbours are told.

// keepsMAC reports whether the kernel would give a link of this type a MAC by chance. The others
// have none, or that of a port or of the link below.
func keepsMAC(v *models.Interface) bool {
	switch v.GetLink().(type) {
	case *models.Interface_Veth, *models.Interface_Bridge, *models.Interface_Vxlan, *models.Interface_Macvlan,
		*models.Interface_Geneve, *models.Interface_Gretap, *models.Interface_Tap, *models.Interface_Dummy:
		return true
	}
	return false
}

// noteLink notes a link that has been read or created as that of a key.
func (d *iface) noteLink(k scheduler.Key, l kernel.Link) {
	d.Announcer.Saw(l)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.noteMAC(k, l)
}

// noteMAC remembers the MAC of a link; d.mu is held.
func (d *iface) noteMAC(k scheduler.Key, l kernel.Link) {
	if l.MAC == "" {
		return
	}
	if d.macs == nil {
		d.macs = map[scheduler.Key]string{}
	}
	d.macs[k] = l.MAC
}

// lastMAC is the MAC that the link of a key had, "" if that is not known or of no use.
func (d *iface) lastMAC(k scheduler.Key, v *models.Interface) string {
	if !keepsMAC(v) {
		return ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.macs[k]
}

// keepMACs has a link that is created again get the MAC that it had, and so has the other end of
// its cable.
func (d *iface) keepMACs(w *wish, s *kernel.LinkSpec) {
	if s.MAC == "" {
		s.MAC = d.lastMAC(w.key, w.value)
	}
	if s.Veth != nil && s.Veth.PeerMAC == "" {
		s.Veth.PeerMAC = d.lastMAC(w.peer.key, w.peer.value)
	}
}

// forgetMAC drops the MAC of a link that has been deleted, unless it is only to be replaced.
func (d *iface) forgetMAC(k scheduler.Key) {
	if _, wanted := d.Interfaces.Wanted(k); wanted {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.macs, k)
}

// forgetMACs drops those of all keys that are neither wanted nor in place.
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

// announceSetUp tells neighbours of what has been set up; see [Announcer].
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

// announceMoved tells neighbours of a link that was there before, if the patch may have changed
// where or by which MAC they reach it.
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
