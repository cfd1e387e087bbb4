package cni

import (
	"context"
	"errors"
	"fmt"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// unknownMaster refuses a network whose master is not in the intent, is in another namespace, or is no bridge in mode
// bridge.
func (s *Service) unknownMaster(ctx context.Context, n network.Network) *spec.Error {
	if n.Link.Master == "" {
		return nil
	}
	st, err := s.engine.Get(ctx, scheduler.Key(models.InterfaceKey(n.Link.Master)))
	if err != nil && !errors.Is(err, scheduler.ErrUnknownKey) {
		return gaveUp(err)
	}
	v, ok := st.Desired.(*models.Interface)
	switch {
	case !ok:
		return &spec.Error{Code: spec.TryLater, Msg: "the master is not in the intent", Details: fmt.Sprintf(
			"master: %s; for a link that the host has configured write {\"existing\": {}}", models.InterfaceKey(n.Link.Master))}
	case v.GetNamespace() != nil:
		return spec.Invalid("master: %s is in %s, not in the network of the host", models.InterfaceKey(n.Link.Master), v.GetNamespace().Text())
	case n.Mode == network.ModeBridge && v.GetBridge() == nil && v.GetExisting() == nil:
		return spec.Invalid("master: %s is a %s and no bridge", models.InterfaceKey(n.Link.Master), v.LinkType())
	}
	return nil
}

// heldByContainer refuses an attachment to an exclusive interface that another container has. The lock is held.
func (s *Service) heldByContainer(k Key, n network.Network) *spec.Error {
	mine := n.Exclusive()
	for _, o := range s.nets {
		if mine == "" || o.Exclusive() != mine {
			continue
		}
		for user := range o.users {
			if user != k {
				return spec.InUse("%s belongs to %s; a parent has one such interface", mine, user)
			}
		}
	}
	return nil
}

// stackedConfig adds the keys of a configuration that describe a macvlan, ipvlan or VLAN.
func stackedConfig(config map[string]any, v *models.Interface) {
	config["mode"], config["master"] = v.LinkType(), v.Parent()
	switch l := v.GetLink().(type) {
	case *models.Interface_Macvlan:
		config["linkMode"] = l.Macvlan.EffectiveMode()
	case *models.Interface_Ipvlan:
		config["linkMode"] = l.Ipvlan.EffectiveMode()
	case *models.Interface_Vlan:
		config["vlan"] = l.Vlan.GetId()
	}
}

// portConfig adds the keys of a configuration that describe a bridge port.
func portConfig(config map[string]any, port *models.BridgePort) {
	var trunk []map[string]uint32
	for _, v := range port.GetVlans() {
		switch {
		case v.GetPvid():
			config["vlan"] = v.GetId()
		case v.GetUntagged():
			config["preserveDefaultVlan"] = true
		default:
			trunk = append(trunk, map[string]uint32{"minID": v.GetId(), "maxID": max(v.GetId(), v.GetTo())})
		}
	}
	if len(trunk) > 0 {
		config["vlanTrunk"] = trunk
	}
	if port.GetHairpin() {
		config["hairpinMode"] = true
	}
	if port.GetIsolated() {
		config["portIsolation"] = true
	}
}
