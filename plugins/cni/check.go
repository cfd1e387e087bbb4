package cni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// check reads the objects of an attachment and compares them with its record, and the record
// with the result that the runtime has kept.
func (s *Service) check(ctx context.Context, c Call) wire.Answer {
	broken := func(msg, details string) wire.Answer {
		return wire.Answer{Error: &spec.Error{Code: spec.Broken, Msg: msg, Details: details}}
	}
	k := c.Key()
	a, there := s.store.Get(k)
	if !there || a.Phase != Added {
		details := k.String()
		if f, err := s.forgottenAt(ctx, k); err == nil && f != nil {
			details += " has no record; agentctl cni adopt " + k.ContainerID
		}
		return broken("the container is not attached", details)
	}
	if here, _ := s.there(a); !here {
		return broken("the network namespace of the container is gone, or another", a.Netns)
	}
	look := scheduler.Txn{Look: keysIn(a.Wants)}
	if a.Pod != "" {
		wants, _ := s.wished(ctx, a.pods())
		look.Look = scheduled(wants)
	}
	_, err := s.engine.Apply(ctx, look)
	waits := ""
	if err == nil {
		waits, err = s.waits(ctx, look.Look)
	}
	if err != nil {
		waits = err.Error()
	}
	if waits != "" {
		return broken("the attachment is not as it was made", waits)
	}
	differs, err := s.differs(a, c.previous())
	if err != nil {
		return broken("the attachment cannot be read", err.Error())
	}
	if differs != "" {
		return broken("prevResult is not the result of this attachment", differs)
	}
	return wire.Answer{}
}

// differs names the first difference between the result that an ADD returned and prevResult,
// "" if there is none. Plugins after this one may add interfaces and addresses of their own
// and change the hardware address, so that one is compared with the kernel's.
func (s *Service) differs(a Attachment, prev spec.Result) (string, error) {
	if a.Result == nil {
		return "", nil // recorded by a release that did not keep results
	}
	for i, made := range a.Result.Interfaces {
		at := slices.IndexFunc(prev.Interfaces, func(p spec.Interface) bool { return p.Name == made.Name && p.Sandbox == made.Sandbox })
		where := made.Name
		if made.Sandbox != "" {
			where += " in " + made.Sandbox
		}
		if at < 0 {
			return fmt.Sprintf("it lacks the interface %s", where), nil
		}
		got, want := addressesOn(prev, at), addressesOn(*a.Result, i)
		for _, ip := range slices.Sorted(maps.Keys(want)) {
			if !got[ip] {
				return fmt.Sprintf("it lacks the address %s of %s", ip, where), nil
			}
		}
		if made.Name != a.Key.IfName || made.Sandbox != a.Netns {
			continue
		}
		for _, ip := range slices.Sorted(maps.Keys(got)) {
			if !want[ip] {
				return fmt.Sprintf("it has the address %s on %s, which ADD did not give", ip, where), nil
			}
		}
		link, err := s.host.Link(a.Netns, made.Name)
		if err != nil && !errors.Is(err, kernel.ErrNotExist) {
			return "", err
		}
		if named := prev.Interfaces[at].Mac; named != "" && link.MAC != "" && named != link.MAC {
			return fmt.Sprintf("it has the hardware address %s for %s, which has %s", named, where, link.MAC), nil
		}
	}
	return "", nil
}

// addressesOn returns the addresses that a result has on one of its interfaces.
func addressesOn(r spec.Result, index int) map[string]bool {
	on := map[string]bool{}
	for _, ip := range r.IPs {
		if ip.Interface != nil && *ip.Interface == index {
			on[ip.Address] = true
		}
	}
	return on
}
