package netlink

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// The message with which a change of the tables ends, which golang.org/x/sys does not name.
const (
	newGeneration  = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN
	sizeofNfgenmsg = 4
)

// WatchTables has Watch tell of changes of the tables of a namespace.
func (k *Kernel) WatchTables(ns kernel.NS) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.namespaces[ns]
	switch {
	case k.closed:
		return ErrClosed
	case e == nil:
		return fmt.Errorf("%w (or was never opened): %d", kernel.ErrNoNamespace, ns)
	case e.tables:
		return nil
	}
	if len(k.hub.list()) > 0 {
		if err := k.hub.add(e.namespace, tables); err != nil {
			return fmt.Errorf("watch the tables: %w", openfiles.Explain(err))
		}
	}
	e.tables = true
	return nil
}

// UnwatchTables ends it.
func (k *Kernel) UnwatchTables(ns kernel.NS) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.namespaces[ns]; e != nil && e.tables {
		e.tables = false
		k.hub.forget(ns, tables)
	}
}

// tablesEvent translates one message of nftables. Of all that a change consists of only
// its end is told.
func (k *Kernel) tablesEvent(n *namespace, h unix.NlMsghdr, body []byte) (kernel.Event, bool) {
	ev := kernel.Event{NS: n.id}
	if h.Type != newGeneration || len(body) < sizeofNfgenmsg {
		return ev, false
	}
	for typ, value := range attributes(body[sizeofNfgenmsg:]) {
		switch typ {
		case unix.NFTA_GEN_ID:
			ev.Tables = &kernel.TablesChange{Generation: asBE32(value)}
		case unix.NFTA_GEN_PROC_PID:
			ev.Actor.Process = int(asBE32(value))
		case unix.NFTA_GEN_PROC_NAME:
			ev.Actor.Name = asString(value)
		}
	}
	return ev, ev.Tables != nil
}
