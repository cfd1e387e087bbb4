package route

import (
	"net/netip"
	"testing"
)

// TestIdentity: what stands in the ledger is read back, and what is no mark names no route.
func TestIdentity(t *testing.T) {
	for _, i := range []identity{
		{netip.MustParsePrefix("10.0.0.0/8"), 254, 0},
		{netip.MustParsePrefix("0.0.0.0/0"), 1, 4294967295},
		{netip.MustParsePrefix("2001:db8::/32"), 4294967295, 1024},
	} {
		if got := parseIdentity(i.String()); got != i {
			t.Errorf("%s is read as %s", i, got)
		}
	}
	for _, mark := range []string{"", "10.0.0.0/8", "10.0.0.0 table 254 metric 0", "10.0.0.0/8 table x metric 0", "10.0.0.0/8 table 254 metric -1"} {
		if got := parseIdentity(mark); got != (identity{}) {
			t.Errorf("%q is read as %s", mark, got)
		}
	}
}
