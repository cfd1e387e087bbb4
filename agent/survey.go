package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/ledger"
)

// The ledgers, as losses name them.
const (
	ledgerFile   = "ledger"
	givenFile    = "ipam/ledger"
	attachedFile = "cni/ledger"
)

// survey compares what the ledgers say with what can be told without them: whether their
// files are there, the marks of links, the results of ADDs, addresses in the kernel. What
// the ledgers lack is noted as a loss, and the addresses count as taken.
func (h *host) survey(c Config, found map[string]ledger.Found, log *slog.Logger) error {
	if err := h.missing(c, found); err != nil {
		return err
	}
	own, err := h.kernel.Links(h.kernel.Own())
	if err != nil {
		return fmt.Errorf("read the links of the host: %w", err)
	}
	if n := h.unrecorded(own); n > 0 && h.lost.String() == "" {
		if err := h.lost.add(attachedFile, fmt.Sprintf("%d links of containers bear our mark and are of no attachment in it", n), ""); err != nil {
			return err
		}
	}
	lost := h.lost.String() != ""
	if lost {
		openAllNamespaces(h.kernel, c)
		h.compareRecords(log)
	}
	var taken []ipam.Taken
	for _, held := range h.store.Held() {
		taken = append(taken, ipam.Taken{Claim: held.Claim, Addr: held.Addr, Sure: lost})
	}
	var claimed, unclaimed []ipam.Taken
	if lost {
		claimed, unclaimed = h.markedAddresses()
	}
	// The records may be older than the links, but for some links only they name the claim.
	taken = slices.Concat(taken, claimed, h.recordedAddresses(), unclaimed)
	if n := h.book.Found(taken); n > 0 {
		log.Warn("the ledger of addresses lacks some that are in use; nobody else is given them", "addresses", n)
	}
	if why := h.lost.String(); why != "" {
		log.Warn("not all is known of what earlier runs did; nothing is deleted only because it is not in the intent", "lost", why)
	}
	return nil
}

// missing notes ledgers that should be there. If there is none this is the first start,
// unless something bears our mark.
func (h *host) missing(c Config, found map[string]ledger.Found) error {
	var gone []string
	for _, file := range []string{ledgerFile, givenFile, attachedFile} {
		if found[file].Missing {
			gone = append(gone, file)
		}
	}
	if len(gone) == len(found) {
		n, err := h.markedAnywhere(c)
		if n > 0 {
			err = h.lost.add(".", fmt.Sprintf("the state directory is empty, and %d links bear the mark of this label", n), "")
		}
		return err
	}
	for _, file := range gone {
		if err := h.lost.add(file, "it is missing", ""); err != nil {
			return err
		}
	}
	return nil
}

// markedAnywhere counts the links with our mark in all namespaces of the host. It uses
// handles of its own: at a first start nobody needs them afterwards.
func (h *host) markedAnywhere(c Config) (n int, err error) {
	k, end, err := h.kernel.again()
	if err != nil {
		return 0, err
	}
	defer end()
	openAllNamespaces(k, c)
	return len(h.marked(k)), nil
}

// unrecorded counts the links of attachments that are not in the store.
func (h *host) unrecorded(links []kernel.Link) (n int) {
	for _, l := range links {
		if key, ours := h.owner.LinkKey(l); ours && h.store.Lacks(key) {
			n++
		}
	}
	return n
}

// markedLink is a link with our mark.
type markedLink struct {
	kernel.Link
	key string
}

// marked are the links with our mark in all namespaces that are open.
func (h *host) marked(k kernel.Kernel) (list []markedLink) {
	for _, ns := range k.InUse() {
		links, _ := k.Links(ns) // one that has just ended has none
		for _, l := range links {
			if key, ours := h.owner.LinkKey(l); ours {
				list = append(list, markedLink{l, key})
			}
		}
	}
	return list
}

// compareRecords compares the records of attachments with the links in their namespaces, since
// the records may be older. A record whose link does not exist is removed: the container was
// detached since. One whose link has other addresses is not believed: the container was attached
// anew since, and keeps what it has.
func (h *host) compareRecords(log *slog.Logger) {
	links := map[string]markedLink{}
	for _, l := range h.marked(h.kernel) {
		if _, inside := cni.LinkOf(l.key, 0); inside {
			links[l.key] = l
		}
	}
	open := map[uint64]bool{}
	for _, ns := range h.kernel.InUse() {
		open[uint64(ns)] = true
	}
	detached, changed := h.store.Compare(func(link string, inode uint64) (addresses []netip.Addr, state cni.Seen) {
		l, there := links[link]
		switch {
		case !open[inode]:
			return nil, cni.Unknown
		case !there || uint64(l.NS) != inode:
			return nil, cni.Absent
		}
		list, err := h.kernel.Addresses(l.NS, l.Index)
		if err != nil {
			return nil, cni.Unknown
		}
		for _, a := range list {
			if !a.Kernel {
				addresses = append(addresses, a.Prefix.Addr())
			}
		}
		return addresses, cni.Present
	})
	for _, k := range detached {
		log.Warn("the record of an attachment without a link is removed", "attachment", k.String())
	}
	for _, k := range changed {
		log.Warn("the record of an attachment contradicts its link and is not used", "attachment", k.String())
	}
}

// recordedAddresses are those that the ledger of objects names with the claim that
// holds them.
func (h *host) recordedAddresses() (list []ipam.Taken) {
	for _, e := range h.owner.Entries(models.KindAddress + "/") {
		v, err := models.DecodeValue[*models.Address](e.Value)
		p, bad := netip.ParsePrefix(e.Mark)
		if err == nil && bad == nil && v.GetClaim() != "" {
			list = append(list, ipam.Taken{Claim: v.GetClaim(), Addr: p.Addr()})
		}
	}
	return list
}

// markedAddresses are those of links with our mark, but for the ends of cables on the
// host and bridges: what those have is a gateway, which pools give to nobody else. Of those in
// unclaimed the link does not tell the claim.
func (h *host) markedAddresses() (claimed, unclaimed []ipam.Taken) {
	for _, l := range h.marked(h.kernel) {
		if strings.HasPrefix(l.key, models.InterfaceKey(cni.Source+":")) {
			if _, inside := cni.LinkOf(l.key, 0); !inside {
				continue
			}
		}
		addresses, _ := h.kernel.Addresses(l.NS, l.Index)
		n := 0
		for _, a := range addresses {
			if a.Kernel {
				continue
			}
			t := ipam.Taken{Addr: a.Prefix.Addr(), OnLink: true}
			if claim, inside := cni.LinkOf(l.key, n); inside {
				if used, uses := h.book.Address(claim); !uses || used == t.Addr {
					t.Claim = claim // else the book is wrong about one of them
				}
			}
			if n++; t.Claim != "" {
				claimed = append(claimed, t)
			} else {
				unclaimed = append(unclaimed, t)
			}
		}
	}
	return claimed, unclaimed
}

// broken says why a ledger cannot be written, nil if all can.
func (h *host) broken() error {
	return errors.Join(h.ledger.Broken(), h.given.Broken(), h.attached.Broken())
}

// mend tries again what could not be written.
func (h *host) mend() error {
	return errors.Join(h.ledger.Mend(), h.given.Mend(), h.attached.Mend())
}
