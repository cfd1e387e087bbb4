package cni

import (
	"context"
	"fmt"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// unknownMaster refuses a network whose master is not in the intent, or is a link that attachments
// cannot use.
func (s *Service) unknownMaster(ctx context.Context, n network.Network) *spec.Error {
	if n.Master == "" {
		return nil
	}
	st, err := s.engine.Get(ctx, scheduler.Key(models.InterfaceKey(n.Master)))
	if err != nil {
		return gaveUp(err)
	}
	v, ok := st.Desired.(*models.Interface)
	switch {
	case !ok:
		return &spec.Error{Code: spec.TryLater, Msg: "the master is not in the intent", Details: fmt.Sprintf(
			"master: %s; for a link that others have made write {\"existing\": {}}", models.InterfaceKey(n.Master))}
	case v.GetNamespace() != nil:
		return spec.Invalid("master: %s is in %s, not in the network of the host", models.InterfaceKey(n.Master), v.GetNamespace().Text())
	case n.Mode == network.ModeBridge && v.GetBridge() == nil && v.GetExisting() == nil:
		return spec.Invalid("master: %s is no bridge but a %s", models.InterfaceKey(n.Master), v.LinkType())
	}
	return nil
}

// heldByContainer refuses an attachment of which the master has one that another container has. The lock
// is held.
func (s *Service) heldByContainer(k Key, n network.Network) *spec.Error {
	mine := n.Exclusive()
	for _, o := range s.nets {
		if mine == "" || o.Exclusive() != mine {
			continue
		}
		for user := range o.users {
			if user != k {
				return spec.InUse("%s is the interface of %s, and there can be one only", mine, user)
			}
		}
	}
	return nil
}

// stackedConfig adds what the interface of a container on top of another one says.
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

// portConfig adds what the port of a bridge says.
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
