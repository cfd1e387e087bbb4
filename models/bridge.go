package models

import "fmt"

// Last is the last VLAN of a range, which may be of one.
func (x *BridgeVlan) Last() uint32 { return max(x.GetId(), x.GetTo()) }

// checkBridge checks what a bridge says of VLANs, of its own and as a port of another.
func (x *Interface) checkBridge(f *findings) {
	checkVlans(x.GetBridge().GetVlans(), "bridge.vlans", f)
	if p := x.GetBridgePort(); p != nil {
		checkVlans(p.GetVlans(), "bridge_port.vlans", f)
		if x.GetMaster() == "" {
			f.add("bridge_port", "is for the port of a bridge; name that as master, or take it out")
		}
		if x.SetsOnce("master") {
			f.add("bridge_port", "not together with set_once: master; whoever moves the interface to another bridge would have it there")
		}
	}
}

func checkVlans(list []*BridgeVlan, at string, f *findings) {
	where := map[uint32]int{}
	pvid := -1
	for i, v := range list {
		at := fmt.Sprintf("%s[%d]", at, i)
		if v.GetTo() != 0 && v.GetTo() < v.GetId() {
			f.add(at+".to", "must be at least id, %d, not %d", v.GetId(), v.GetTo())
			continue
		}
		if v.GetPvid() {
			switch {
			case v.Last() != v.GetId():
				f.add(at+".pvid", "is for one VLAN, not for %d to %d", v.GetId(), v.Last())
			case pvid >= 0:
				f.add(at+".pvid", "is that of %d already; there can be one", list[pvid].GetId())
			default:
				pvid = i
			}
		}
		for id := v.GetId(); id <= min(v.Last(), 4094); id++ {
			if first, double := where[id]; double {
				f.add(at, "VLAN %d is in the list already, in the place %d", id, first)
				break
			}
			where[id] = i
		}
	}
}
