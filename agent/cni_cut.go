package agent

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

const (
	// firewallsFresh is for how long what was read of firewalls is believed if the tables of
	// nftables have not changed since, firewallsShared if they have, and firewallsRead how
	// long the reading may take.
	firewallsFresh  = 3 * time.Second
	firewallsShared = 200 * time.Millisecond
	firewallsRead   = 2 * time.Second
)

// firewallView is what is known of the firewalls of the host. They are read by programs, so
// ADDs that come together share one reading.
type firewallView struct {
	mu         sync.Mutex
	at         time.Time
	generation uint32
	list       []kernel.Firewall
}

func (v *firewallView) get(h *host) []kernel.Firewall {
	v.mu.Lock()
	defer v.mu.Unlock()
	age := time.Since(v.at)
	if age < firewallsShared {
		return v.list
	}
	own := h.kernel.Own()
	generation, err := h.kernel.Tables().Generation(own)
	if err == nil && generation == v.generation && age < firewallsFresh {
		return v.list
	}
	ctx, cancel := context.WithTimeout(context.Background(), firewallsRead)
	defer cancel()
	list, err := h.kernel.Firewalls().Firewalls(ctx, own)
	v.at, v.generation, v.list = time.Now(), generation, list
	if err != nil {
		v.list = nil // it is not told that something is stopped unless that is known
	}
	return v.list
}

// Cut says which firewall stops packets between two links. Between two ports of a bridge it
// is asked only where bridges call iptables.
func (h cniHost) Cut(family int, in, out string) string {
	program := programOf(family)
	why := "drops them"
	switch {
	case in == out:
		if !h.BridgesCall(family) {
			return ""
		}
		why += fmt.Sprintf("; bridges call it since net.bridge.bridge-nf-call-%s is 1", program)
	case out == "":
		if out = h.wayOut(); out == "" {
			return ""
		}
	}
	for _, f := range h.firewalls.get(h.host) {
		if !strings.HasPrefix(f.Program, program+"-") || !f.Stops(in, out) {
			continue
		}
		whose := ""
		if f.ForOthers() == kernel.DockerUser {
			whose = "Docker's firewall, "
		}
		return fmt.Sprintf("%s%s of %s, %s", whose, kernel.ForwardChain, f.Program, why)
	}
	return ""
}

func programOf(family int) string {
	if family == 6 {
		return "ip6tables"
	}
	return "iptables"
}

// BridgesCall reads the setting of the host's namespace; without the module there is none.
func (h cniHost) BridgesCall(family int) bool {
	value, err := h.host.kernel.Sysctl(h.host.kernel.Own(), "net/bridge/bridge-nf-call-"+programOf(family))
	return err == nil && value != "0"
}

// wayOut is the link by which the default route of the host leads, "" if there is none.
func (h cniHost) wayOut() string {
	own := h.host.kernel.Own()
	routes, err := h.host.kernel.Routes(own)
	if err != nil {
		return ""
	}
	for _, r := range routes {
		if r.Dst.Bits() == 0 && r.Type == "unicast" && r.Index != 0 {
			if l, err := h.host.kernel.LinkByIndex(own, r.Index); err == nil {
				return l.Name
			}
		}
	}
	return ""
}
