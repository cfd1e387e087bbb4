package kind

import (
	"fmt"
	"net/netip"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Claims tells what ipclaims hold. Where it is optional, nil says that there are none.
type Claims interface {
	// Need is the need for the claim, with the address that it holds as projection.
	Need(claim string) scheduler.Need
	// Prefix is the address that the claim holds, with the length that its pool gives.
	Prefix(claim string) (netip.Prefix, bool)
}

// OnClaim needs a claim; the value is built with the address that it holds.
func OnClaim(c Claims, claim string) scheduler.Need {
	if c == nil {
		return scheduler.On(scheduler.Key(models.IPClaimKey(claim)), "the claim that holds the address")
	}
	return c.Need(claim)
}

// Held is the address that a claim holds, with the length that its pool gives.
func Held(c Claims, claim string) (netip.Prefix, error) {
	if c != nil {
		if p, ok := c.Prefix(claim); ok {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("%s holds no address", models.IPClaimKey(claim))
}
