package fdb

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

func (d *fdb) prepare(ctx context.Context, o *op) (job owned.Job[kernel.LinkRef], err error) {
	ref, err := kind.LinkOf(d.Interfaces, o.Value.GetInterface())
	if err != nil {
		return job, err
	}
	want, err := d.find(ref, o.Value)
	if err != nil {
		return job, err
	}
	e := kernel.Entry{ID: string(o.Key), NS: ref.NS, Index: want.Table, Value: models.Encode(o.Value)}
	if link, ok := d.Owner.Entry(models.InterfaceKey(o.Value.GetInterface())); ok {
		e.NSPath = link.NSPath
	}
	before, had := d.Owner.Entry(e.ID)
	recorded := had && before.NS == e.NS && recordOf(before) == recordOf(e)
	if !recorded {
		// The ledger will be all that tells what is ours: it must not name what somebody
		// else has made, not even until we have failed to make it.
		switch there, err := d.Kernel.FDBEntry(ref.NS, want); {
		case err == nil:
			return job, d.conflict(o.Key, ref.NS, want, there)
		case !errors.Is(err, kernel.ErrNotExist):
			return job, err
		}
	}
	return owned.Job[kernel.LinkRef]{
		Entries: []kernel.Entry{e},
		Make: func() (kernel.LinkRef, error) {
			if err := ctx.Err(); err != nil {
				return ref, err
			}
			return ref, d.make(o.Key, ref.NS, want, recorded)
		},
	}, nil
}

// find is the entry that a value asks for on a link: of its bridge, or of the vxlan itself.
func (d *fdb) find(ref kernel.LinkRef, v *models.FDB) (want kernel.FDBEntry, err error) {
	l, err := d.Kernel.LinkByIndex(ref.NS, ref.Index)
	if err != nil {
		return want, err
	}
	want = kernel.FDBEntry{Table: l.Index, MAC: mac(v), VLAN: int(v.GetVlan()), Address: address(v)}
	if want.Address.IsValid() {
		if err := checkVxlan(l, want, v.GetInterface()); err != nil {
			return want, scheduler.Blocked(scheduler.Key(models.InterfaceKey(v.GetInterface())), err)
		}
		return want, nil
	}
	if l.Master != 0 {
		bridge, err := d.Kernel.LinkByIndex(ref.NS, l.Master)
		if err != nil && !kernel.IsGone(err) {
			return want, err
		}
		if err == nil && bridge.Bridge != nil {
			want.Port, want.Table = l.Index, bridge.Index
			return want, nil
		}
	}
	return want, scheduler.Blocked(scheduler.Key(models.InterfaceKey(v.GetInterface())),
		fmt.Errorf("%s is not a port of a bridge; give it a master, or address if the entry is of a vxlan", v.GetInterface()))
}

// checkVxlan refuses what a link cannot have: one that is not a vxlan would take the MAC for
// one to listen to, and one that sends IPv4 cannot send IPv6.
func checkVxlan(l kernel.Link, e kernel.FDBEntry, name string) error {
	if l.Vxlan == nil {
		return fmt.Errorf("%s is not a vxlan; without address the entry is of the bridge whose port it is", name)
	}
	if e.MAC == kernel.ZeroMAC && e.Address == l.Vxlan.Remote {
		return fmt.Errorf("%s has this entry by itself, as its remote is %s", name, e.Address)
	}
	six := l.Vxlan.Local.Is6() || l.Vxlan.Remote.Is6()
	if six == e.Address.Is6() {
		return nil
	}
	sends := "IPv4"
	if six {
		sends = "IPv6"
	}
	return fmt.Errorf("%s sends by %s, as its local and remote address say, and not to %s", name, sends, e.Address)
}

// make makes an entry. recorded says that the ledger named it before.
func (d *fdb) make(k scheduler.Key, ns kernel.NS, e kernel.FDBEntry, recorded bool) error {
	err := d.inUse(k, ns, e) // by one of the same batch
	if err == nil {
		d.note(ns, e, k, e) // first, or we take the event for news
		if err = d.Kernel.AddFDBEntry(ns, e); errors.Is(err, kernel.ErrExist) {
			err = d.clash(k, ns, e, recorded, err)
		}
		if err != nil {
			d.note(ns, e, k, kernel.FDBEntry{}) // whatever happens to the one that stands there is news
		}
	}
	if err != nil {
		if !recorded {
			d.Owner.Remove(string(k))
		}
		return err
	}
	return d.Owner.Hit("fdb/made")
}

// clash looks at what is in the way. Ours by the ledger is success, and brought back if the
// bridge has moved it; else it is a conflict.
func (d *fdb) clash(k scheduler.Key, ns kernel.NS, e kernel.FDBEntry, recorded bool, exists error) error {
	there, err := d.Kernel.FDBEntry(ns, e)
	switch {
	case errors.Is(err, kernel.ErrNotExist) && e.Port != 0 && e.VLAN == 0:
		return scheduler.Conflict("somebody else", fmt.Errorf("%s has an entry already in a VLAN of the port; see: bridge fdb show: %w", e.MAC, exists))
	case errors.Is(err, kernel.ErrNotExist):
		return exists
	case err != nil:
		return err
	case !recorded || !isOurs(e, there):
		return d.conflict(k, ns, e, there)
	case there == e:
		return nil
	}
	if err := d.Kernel.DeleteFDBEntry(ns, there); err != nil && !kernel.IsGone(err) {
		return err
	}
	return d.Kernel.AddFDBEntry(ns, e)
}

// inUse says that another key has the entry in the place of e; nil: none has.
func (d *fdb) inUse(k scheduler.Key, ns kernel.NS, e kernel.FDBEntry) error {
	h, known := d.have.Get(ns, e.Place())
	if !known || h.key == k || h.entry.Table == 0 {
		return nil
	}
	return scheduler.Blocked(h.key, fmt.Errorf("%s has an entry there already, that of %s", e.MAC, h.key))
}

// conflict says what is in the place of an entry, and how to get rid of it.
func (d *fdb) conflict(k scheduler.Key, ns kernel.NS, e, there kernel.FDBEntry) error {
	if err := d.inUse(k, ns, e); err != nil {
		return err
	}
	d.note(ns, e, k, kernel.FDBEntry{}) // when it goes is news
	at := there.Table
	if there.Port != 0 {
		at = there.Port
	}
	dev := strconv.Itoa(at)
	if l, err := d.Kernel.LinkByIndex(ns, at); err == nil {
		dev = l.Name
	}
	if there.Local {
		return scheduler.Conflict("the bridge", fmt.Errorf("the bridge takes frames for %s itself, as the address of %s or because somebody has said so", there.MAC, dev))
	}
	var to, cmd string
	switch {
	case there.Port == 0 && there.Address.IsValid():
		to, cmd = there.Address.String(), "dst "+there.Address.String()+" dev "+dev+" self"
	case there.Port == 0:
		to, cmd = "a group", "dev "+dev+" self"
	case there.VLAN != 0:
		to, cmd = dev, "dev "+dev+" master vlan "+strconv.Itoa(there.VLAN)
	default:
		to, cmd = dev, "dev "+dev+" master"
	}
	return scheduler.Conflict("somebody else", fmt.Errorf("%s has an entry already, to %s, which is not of this key; remove it with: bridge fdb del %s %s", there.MAC, to, there.MAC, cmd))
}

func (d *fdb) delete(_ context.Context, k scheduler.Key, _ *models.FDB, _ kernel.LinkRef) error {
	return d.objects.DeleteRecorded(k, func(e kernel.Entry) error {
		recorded := recordOf(e)
		there, err := d.Kernel.FDBEntry(e.NS, recorded)
		if err != nil || !isOurs(recorded, there) {
			return err // another one is in its place
		}
		d.have.Forget(e.NS, there.Place()) // first, or we take the event for news
		if err := d.Kernel.DeleteFDBEntry(e.NS, there); err != nil && !kernel.IsGone(err) {
			d.note(e.NS, there, k, kernel.FDBEntry{})
			return err
		}
		return nil
	})
}

// recordOf is the entry that the ledger names. Of a bridge it does not say the port, which
// the bridge may change.
func recordOf(e kernel.Entry) kernel.FDBEntry {
	msg, _ := models.DecodeKind(models.KindFDB, e.Value)
	v, ok := msg.(*models.FDB)
	if !ok {
		return kernel.FDBEntry{}
	}
	r := kernel.FDBEntry{Table: e.Index, MAC: mac(v), VLAN: int(v.GetVlan()), Address: address(v)}
	if !r.Address.IsValid() {
		r.Port = anyPort
	}
	return r
}

// anyPort stands for the port that a bridge has now for an entry.
const anyPort = -1

// isOurs reports whether what is there is what the ledger names.
func isOurs(recorded, there kernel.FDBEntry) bool {
	return there.Table != 0 && there.Address == recorded.Address && !there.Local && !there.Special
}

// note keeps what is believed at the place of e.
func (d *fdb) note(ns kernel.NS, e kernel.FDBEntry, k scheduler.Key, there kernel.FDBEntry) {
	d.have.Note(ns, e.Place(), held{key: k, entry: there})
}

func (d *fdb) forgetEntry(e kernel.Entry) { d.have.Forget(e.NS, recordOf(e).Place()) }
