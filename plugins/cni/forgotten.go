package cni

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// ErrNoSuch: nothing is called so.
var ErrNoSuch = errors.New("there is no such attachment")

// Forgotten is an attachment that is there and has no record: what the kernel has of it
// bears our mark. Its mark says the network and a digest of the rest. As long as the
// records are not whole it stays as it is; a DEL removes it, and so do an operator who
// says so and the end of its namespace.
type Forgotten struct {
	// Key is as much as is known: the container only if it is known by its id.
	Key Key
	// Digest is how the keys of its values name it.
	Digest string
	// Netns is where it is, Inode which namespace that is, as far as it is known.
	Netns     string
	Inode     uint64
	Addresses []string
	// Keys are what is there of it, sorted.
	Keys []scheduler.Key
	// linked: a link of it is there. What has none serves nobody.
	linked bool
	values map[string]any // what is there at the keys
	// unknown is a claim whose address is not known, or "".
	unknown string
}

// ID names it to operators: its key, or what is known of it.
func (f Forgotten) ID() string {
	return f.Key.Network + "/" + cmp.Or(f.Key.ContainerID, f.Digest) + "/" + cmp.Or(f.Key.IfName, "?")
}

// kindsOfAttachments are the kinds of what an ADD makes.
var kindsOfAttachments = []string{models.KindAddress, models.KindInterface, models.KindIPClaim, models.KindIPPool,
	models.KindNftables, models.KindRoute, models.KindSysctl}

// prefixesOfAttachments are the prefixes of their keys.
func prefixesOfAttachments() (all []scheduler.Key) {
	for _, name := range kindsOfAttachments {
		all = append(all, scheduler.Key(name+"/"))
	}
	return all
}

// remains are what is there of attachments, by what its names say.
type remains struct {
	forgotten map[string]*Forgotten // by network and digest
	shared    []scheduler.Key
}

// look sorts what is there. Nothing is forgotten while the records are whole.
func (s *Service) look(ctx context.Context) (p remains, err error) {
	p = remains{forgotten: map[string]*Forgotten{}}
	if s.host.Lost() == "" {
		return p, nil
	}
	all, err := s.engine.List(ctx, prefixesOfAttachments()...)
	if err != nil {
		return p, err
	}
	known := map[string]bool{}
	for _, a := range s.store.Of("") {
		known[a.Key.Network+":"+a.Key.id()] = true
	}
	for _, st := range all {
		of, id, ours := network.AttachmentOf(nameOf(st.Key))
		switch {
		case !ours || st.Actual == nil || known[of+":"+id]:
		case id == "":
			p.shared = append(p.shared, st.Key)
		default:
			f := p.forgotten[of+":"+id]
			if f == nil {
				f = &Forgotten{Key: Key{Network: of}, Digest: id, values: map[string]any{}}
				p.forgotten[of+":"+id] = f
			}
			f.add(st)
		}
	}
	for _, f := range p.forgotten {
		s.addClaimed(ctx, f)
		s.identify(f)
	}
	return p, nil
}

// add takes what a value that is there tells.
func (f *Forgotten) add(st scheduler.Status) {
	f.Keys = append(f.Keys, st.Key)
	f.values[string(st.Key)] = st.Actual
	inside := strings.HasSuffix(nameOf(st.Key), f.Digest)
	switch v := st.Actual.(type) {
	case *models.Interface:
		f.linked = true
		if at, ok := kind.LinkOfStatus(st); ok && inside {
			f.Inode = uint64(at.NS)
		}
		if inside {
			f.Key.IfName = v.GetHostName()
		}
	case *models.Address:
		p, err := netip.ParsePrefix(v.GetAddress())
		if err == nil && !p.Addr().IsLinkLocalUnicast() && f.has(v) {
			f.Addresses = append(f.Addresses, v.GetAddress())
		}
	}
}

// has reports whether an address is one of the container.
func (f *Forgotten) has(a *models.Address) bool {
	return a.GetInterface() == network.SharedName(f.Key.Network)+":"+f.Digest
}

// addClaimed adds the addresses that claims hold. Values of the kind address contain the claim in place of the address.
func (s *Service) addClaimed(ctx context.Context, f *Forgotten) {
	for _, key := range slices.Sorted(maps.Keys(f.values)) {
		a, ok := f.values[key].(*models.Address)
		if !ok || a.GetClaim() == "" || !f.has(a) {
			continue
		}
		text, err := s.lease(ctx, a.GetClaim())
		if err != nil {
			f.unknown = a.GetClaim()
			continue
		}
		f.Addresses = append(f.Addresses, text)
	}
}

// identify finds the container: by records that are not believed, and among those that
// runtimes know.
func (s *Service) identify(f *Forgotten) {
	for _, k := range s.store.Doubted() {
		if k.Network == f.Key.Network && k.id() == f.Digest {
			f.Key = k
			return
		}
	}
	for _, id := range s.host.Containers() {
		if f.is(id) {
			f.Key.ContainerID = id
			break
		}
	}
}

// is reports whether it is the attachment of a container.
func (f *Forgotten) is(container string) bool {
	return f.Key.IfName != "" && Key{f.Key.Network, container, f.Key.IfName}.id() == f.Digest
}

// Forgotten are the attachments that are there and have no record, sorted.
func (s *Service) Forgotten(ctx context.Context) ([]Forgotten, error) {
	p, err := s.look(ctx)
	if len(p.forgotten) == 0 {
		return nil, err
	}
	paths, list := s.host.Paths(), []Forgotten{}
	for _, name := range slices.Sorted(maps.Keys(p.forgotten)) {
		if f := *p.forgotten[name]; f.linked {
			f.Netns = paths[f.Inode]
			list = append(list, f)
		}
	}
	return list, err
}

// CountForgotten tells how many there are, as far as it is known.
func (s *Service) CountForgotten(ctx context.Context) (n int) {
	p, _ := s.look(ctx)
	for _, f := range p.forgotten {
		if f.linked {
			n++
		}
	}
	return n
}

// forgottenAt is the one with that key, nil if there is none. The kernel is read: also
// right after the start.
func (s *Service) forgottenAt(ctx context.Context, k Key) (*Forgotten, error) {
	if s.host.Lost() == "" {
		return nil, nil
	}
	name := network.SharedName(k.Network) + ":" + k.id()
	if err := s.read(ctx, name); err != nil {
		return nil, err
	}
	p, err := s.look(ctx)
	f := p.forgotten[k.Network+":"+k.id()]
	if f != nil {
		f.Key = k
	}
	return f, err
}

// read reads what is there of an attachment.
func (s *Service) read(ctx context.Context, name string) error {
	_, err := s.engine.Apply(ctx, scheduler.Txn{Source: Source, Note: "look for " + name, Look: []scheduler.Key{
		scheduler.Key(models.InterfaceKey(name)), scheduler.Key(models.InterfaceKey(name + "-host")), scheduler.Key(models.IPClaimKey(name))}})
	return err
}

// forget removes an attachment that has no record, and what its network had if it was
// the last. It returns what is not gone yet.
func (s *Service) forget(ctx context.Context, f *Forgotten) (left string) {
	left = s.withdraw(ctx, "DEL "+f.ID(), f.Keys)
	if left == "" && f.Key.ContainerID != "" {
		s.store.Forget(f.Key)
	}
	s.tidy(ctx)
	return left
}

// delForgotten is a DEL of an attachment without a record.
func (s *Service) delForgotten(ctx context.Context, k Key) wire.Answer {
	f, err := s.forgottenAt(ctx, k)
	switch {
	case err != nil:
		return wire.Answer{Error: gaveUp(err)}
	case f == nil:
		return wire.Answer{}
	}
	s.log.Info("an attachment without a record is removed by a DEL", "attachment", k.String())
	if left := s.forget(ctx, f); left != "" {
		return wire.Answer{Warnings: []string{"it is still being removed: " + left}}
	}
	return wire.Answer{}
}

// attached refuses an ADD of what is there without a record.
func (s *Service) attached(ctx context.Context, k Key) *spec.Error {
	f, err := s.forgottenAt(ctx, k)
	switch {
	case err != nil:
		return gaveUp(err)
	case f != nil && f.linked:
		return &spec.Error{Code: spec.Exists, Msg: "the container is attached already, though its record is lost", Details: k.String()}
	}
	return nil
}

// tidy removes what served nobody but attachments that have gone: addresses of those
// without a link, and what a network shared that has none any more.
func (s *Service) tidy(ctx context.Context) {
	p, err := s.look(ctx)
	if err != nil {
		return
	}
	serves := map[string]bool{}
	for _, f := range p.forgotten {
		if serves[f.Key.Network] = serves[f.Key.Network] || f.linked; f.linked {
			continue
		}
		name := network.SharedName(f.Key.Network) + ":" + f.Digest
		if err := s.read(ctx, name); err != nil || s.present(ctx, models.InterfaceKey(name)) || s.present(ctx, models.InterfaceKey(name+"-host")) {
			serves[f.Key.Network] = true
			continue
		}
		left := s.withdraw(ctx, "nothing is left of "+f.ID()+" but this", f.Keys)
		s.log.Info("an attachment without a record has ended", "attachment", f.ID(), "left", left)
		if f.Key.ContainerID != "" {
			s.store.Forget(f.Key)
		}
	}
	s.mu.Lock()
	for name := range s.nets {
		serves[name] = true
	}
	s.mu.Unlock()
	unused := slices.DeleteFunc(p.shared, func(k scheduler.Key) bool {
		for name, some := range serves {
			if some && network.SharedBy(nameOf(k), name) {
				return true
			}
		}
		return false
	})
	if len(unused) > 0 {
		_ = s.withdraw(ctx, "networks without attachments", unused)
	}
}

// present reports whether something is there, or may be.
func (s *Service) present(ctx context.Context, key string) bool {
	st, err := s.engine.Get(ctx, scheduler.Key(key))
	return err == nil && st.State != scheduler.Absent && st.State != scheduler.Removed
}

// sharing reports whether attachments without a record use what a network shares.
func (s *Service) sharing(ctx context.Context, name string) bool {
	p, err := s.look(ctx)
	if err != nil {
		return true // unknown is not none
	}
	for _, f := range p.forgotten {
		if f.Key.Network == name && f.linked {
			return true
		}
	}
	return false
}

// Forget removes the attachment that an operator names, and says what is not gone yet.
func (s *Service) Forget(ctx context.Context, id string) (f Forgotten, left string, err error) {
	f, err = s.named(ctx, id)
	if err != nil {
		return f, "", err
	}
	ctx, leave, err := s.queue.Enter(ctx, f.turn(), true)
	if err != nil {
		return f, "", err
	}
	defer leave()
	return f, s.forget(ctx, &f), nil
}

// turn is under what calls about it are one after another.
func (f Forgotten) turn() Key {
	if f.Key.ContainerID != "" {
		return f.Key
	}
	return Key{Network: f.Key.Network, ContainerID: f.Digest, IfName: f.Key.IfName}
}

// shortID is how much of an id names something.
const shortID = 8

// named finds the attachment that an operator means: by container id, by digest, or by
// network/container/interface. It waits until all that attachments have was read: right after the
// start of the agent, the addresses may be unknown.
func (s *Service) named(ctx context.Context, id string) (Forgotten, error) {
	if err := s.engine.WaitForKinds(ctx, kindsOfAttachments...); err != nil {
		return Forgotten{}, err
	}
	all, err := s.Forgotten(ctx)
	if err != nil {
		return Forgotten{}, err
	}
	var match []Forgotten
	for _, f := range all {
		container := id
		if parts := strings.Split(id, "/"); len(parts) == 3 && parts[0] == f.Key.Network {
			if container = parts[1]; f.Key.IfName == "" || parts[2] != "?" {
				f.Key.IfName = parts[2]
			}
		}
		switch {
		case f.is(container):
			f.Key.ContainerID = container
			match = append(match, f)
		case len(container) >= shortID && (strings.HasPrefix(f.Digest, container) || strings.HasPrefix(f.Key.ContainerID, container)):
			match = append(match, f)
		}
	}
	if len(match) == 1 {
		return match[0], nil
	}
	var ids []string
	for _, f := range all {
		ids = append(ids, f.ID())
	}
	switch {
	case len(match) > 1:
		return Forgotten{}, fmt.Errorf("%w: %d attachments without a record are of %q; name one as NETWORK/CONTAINER/INTERFACE: %s", ErrNoSuch, len(match), id, strings.Join(ids, ", "))
	case len(ids) == 0:
		return Forgotten{}, fmt.Errorf("%w: there is no attachment without a record", ErrNoSuch)
	}
	return Forgotten{}, fmt.Errorf("%w: no attachment without a record is of %q; there are %s", ErrNoSuch, id, strings.Join(ids, ", "))
}
