package netlink

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// The message with which a change of the tables ends, which golang.org/x/sys names in part.
const (
	newGeneration  = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWGEN
	generationID   = 1 // NFTA_GEN_ID
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
func (k *Kernel) tablesEvent(n *namespace, typ uint16, body []byte) (kernel.Event, bool) {
	ev := kernel.Event{NS: n.id}
	if typ != newGeneration || len(body) < sizeofNfgenmsg {
		return ev, false
	}
	for typ, value := range attributes(body[sizeofNfgenmsg:]) {
		if typ == generationID && len(value) == 4 {
			ev.Tables = &kernel.TablesChange{Generation: binary.BigEndian.Uint32(value)}
		}
	}
	return ev, ev.Tables != nil
}
