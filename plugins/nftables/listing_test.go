package nftables

import (
	"os"
	"reflect"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// A listing with all that a table can have, also what this kernel has not; what a value
// cannot ask for shows as a chain.
func TestListing(t *testing.T) {
	text, err := os.ReadFile("testdata/listings/sets")
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(string(text), "inet", "plumb-c")
	if err != nil {
		t.Fatal(err)
	}
	want := kernel.Table{Family: "inet", Name: "plumb-c", Comment: "plumb:host7:nftables/c",
		Chains: []kernel.TableChain{
			{Name: "set guess", Rules: []string{"typeof ip saddr . tcp dport"}},
			{Name: "quota q", Rules: []string{"over 10 mbytes"}},
			{Name: "c"},
			{Name: "first", Type: "filter", Hook: "ingress", Devices: []string{"eth0"}, Priority: "filter", Policy: "accept", Rules: []string{"ip saddr @blocked drop"}},
			{Name: "both", Type: "filter", Hook: "ingress", Devices: []string{"eth0", "eth1"}, Priority: "filter - 5", Policy: "drop"},
		},
		Sets: []kernel.TableSet{
			{Name: "blocked", Type: "ipv4_addr", Flags: []string{"interval"}, AutoMerge: true, Elements: []string{"10.0.0.0/23", `192.0.2.7 comment "a, { b"`}},
			{Name: "seen", Type: "ipv4_addr . inet_service", Flags: []string{"dynamic", "timeout"}, Timeout: "5m", Size: 65535, Counter: true},
			{Name: "guess"},
		},
		Maps:       []kernel.TableSet{{Name: "doors", Type: "inet_service", Data: "verdict", Elements: []string{"22 : drop", "443 : jump c"}}},
		Flowtables: []kernel.TableFlowtable{{Name: "fast", Priority: "filter + 10", Devices: []string{"eth0", "eth1"}, Counter: true, Offload: true}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
