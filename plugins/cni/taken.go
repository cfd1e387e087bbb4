package cni

import (
	"net/netip"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
)

// Held is an address that an attachment was told to be its own, and the claim that
// holds it.
type Held struct {
	Claim string
	Addr  netip.Addr
}

// Held are the addresses of attachments by the results of their ADDs: what a pool must
// not give to others, whatever the ledger of addresses says.
func (s *Store) Held() (list []Held) {
	for _, a := range s.Of("") {
		if a.Phase == Added && a.Result != nil && a.Pod == "" {
			list = append(list, a.held()...)
		}
	}
	return list
}

// held: the claims of an attachment are numbered as its addresses are.
func (a Attachment) held() (list []Held) {
	name := network.SharedName(a.Key.Network) + ":" + a.Key.id()
	claims := map[string]bool{}
	for _, key := range a.Wants {
		if claim, ok := strings.CutPrefix(key, models.KindIPClaim+"/"); ok {
			claims[claim] = true
		}
	}
	for _, addr := range a.addresses() {
		if claim := network.Numbered(name, len(list)); claims[claim] {
			list = append(list, Held{claim, addr})
		}
	}
	return list
}

// addresses are those of the interface that the runtime asked for, as the ADD was answered.
func (a Attachment) addresses() (list []netip.Addr) {
	for _, ip := range a.Result.IPs {
		if ip.Interface == nil || *ip.Interface < 0 || *ip.Interface >= len(a.Result.Interfaces) {
			continue
		}
		at := a.Result.Interfaces[*ip.Interface]
		if p, err := netip.ParsePrefix(ip.Address); err == nil && at.Name == a.Key.IfName && at.Sandbox == a.Netns {
			list = append(list, p.Addr())
		}
	}
	return list
}

// LinkOf tells of the mark of a link which claim of an attachment holds its nth address;
// ok is false if the link is not the end in a container.
func LinkOf(key string, n int) (claim string, ok bool) {
	name, isLink := strings.CutPrefix(key, models.KindInterface+"/")
	_, id, _ := network.AttachmentOf(name)
	return network.Numbered(name, n), isLink && id != "" && strings.HasSuffix(name, ":"+id)
}

// Lacks reports whether a link with the mark of that key is of an attachment that is
// not in the store.
func (s *Store) Lacks(key string) bool {
	of, id, _ := network.AttachmentOf(strings.TrimPrefix(key, models.KindInterface+"/"))
	if id == "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.all {
		if k.Network == of && k.id() == id {
			return false
		}
	}
	return true
}
