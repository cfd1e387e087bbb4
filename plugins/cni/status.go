package cni

import (
	"context"

	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// status reports whether an ADD could be served. Whatever it says, calls are served
// as well as may be.
func (s *Service) status(ctx context.Context, c Call) wire.Answer {
	no := func(code int, msg, details string) wire.Answer {
		return wire.Answer{Error: &spec.Error{Code: code, Msg: msg, Details: details}}
	}
	if wrong := network.CheckKeys(c.Config); wrong != nil {
		return wire.Answer{Error: wrong}
	}
	unready, lost := s.host.Trouble()
	if err := s.store.Broken(); err != nil {
		lost = err.Error()
	}
	switch {
	case lost != "":
		return no(spec.Degraded, "what is attached may suffer as well", lost)
	case unready != "":
		return no(spec.Unavailable, nothing, unready)
	}
	if c.Network.Delegate() != "" || c.Network.Mode == network.ModeIntent && len(c.Network.Pool) == 0 {
		return wire.Answer{} // the addresses are not ours to give
	}
	n, wrong := network.New(c.Network, s.pools(ctx, c.Network), nil)
	switch {
	case wrong != nil && wrong.Code == spec.TryLater:
		return no(spec.Unavailable, nothing, wrong.Error())
	case wrong != nil:
		return wire.Answer{Error: wrong}
	}
	if wrong = s.unknownMaster(ctx, n); wrong == nil {
		wrong = s.collides(ctx, c.Network.Name, n)
	}
	switch {
	case wrong != nil && wrong.Code == spec.TryLater:
		return no(spec.Unavailable, nothing, wrong.Details)
	case wrong != nil:
		return wire.Answer{Error: wrong}
	}
	for _, sub := range n.Subnets {
		if s.host.Full(sub.Pool) {
			return no(spec.Unavailable, nothing, "ippool/"+sub.Pool+" has no free address")
		}
	}
	return wire.Answer{}
}

const nothing = "nothing can be attached now"
