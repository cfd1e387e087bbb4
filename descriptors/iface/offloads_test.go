package iface_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// refused checks that an error is told in these words, and that nobody tries again.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	var class *scheduler.OpError
	if !errors.As(err, &class) || !class.Terminal {
		t.Errorf("%v: want an error that is not tried again", err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%v: does not say %q", err, word)
		}
	}
}

// What the device cannot do is told with what it can.
func TestOffloadsThatAreNotThere(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "tuntap add dev tap0 mode tap")
	for _, c := range []struct{ offloads, says string }{
		{`"features":{"rx-groo":true}`, "features.rx-groo: this kernel knows no such feature; did you mean rx-gro?"},
		{`"features":{"quantum-entanglement":true}`, "knows no such feature; those of the link that can be changed are "},
		{`"features":{"rx-lro":true}`, "the device has fixed features.rx-lro off"},
		{`"rings":{"rx":256}`, "rings: the device has no adjustable rings, or the driver does not report them; leave them out"},
	} {
		_, err := b.try("tap0", `{"existing":{},`+c.offloads+`}`)
		refused(t, err, c.says)
		_, err = b.try("ours", `{"tap":{},`+c.offloads+`}`)
		refused(t, err, c.says)
	}
	_, err := b.try("ours", `{"tap":{},"features":{"rx-lro":true}}`)
	refused(t, err, "the device has fixed features.rx-lro off; leave it out; those of the link that can be changed are ", "tx-scatter-gather")
	// Nobody gives a tap checksums but the program that holds it.
	_, err = b.try("ours", `{"tap":{},"features":{"tx-checksum-ip-generic":true}}`)
	refused(t, err, "the device did not take tx-checksum-ip-generic on; another feature or the link below may forbid it, see ethtool -k ours")
	b.make("ours", `{"tap":{},"features":{"rx-lro":false}}`) // it is so
}

// Drift of a feature is heard.
func TestFeatureDriftIsNews(t *testing.T) {
	b := newBench(t)
	b.make("br", `{"bridge":{},"features":{"tx-tcp-segmentation":false}}`)
	b.make("fence", `{"bridge":{}}`)
	n := b.follow()
	b.own.Run(t, "ethtool", "-K", "br", "tx-tcp6-segmentation", "off")
	if keys := b.drain(n); len(keys) != 0 {
		t.Errorf("a feature that nobody asked for is news of %v", keys)
	}
	b.own.Run(t, "ethtool", "-K", "br", "tx-tcp-segmentation", "on")
	n.reports(t, "interface/br")
}

// ringed gives each link rings, of which it makes multiples of 64.
type ringed struct {
	kernel.Kernel
	rings kernel.Rings
	sets  int
}

func (r *ringed) Rings(kernel.NS, int) (kernel.Rings, error) { return r.rings, nil }

func (r *ringed) SetRings(_ kernel.NS, _ int, rx, tx uint32) error {
	r.sets++
	if rx != 0 {
		r.rings.RX = (rx + 63) / 64 * 64
	}
	if tx != 0 {
		r.rings.TX = (tx + 63) / 64 * 64
	}
	return nil
}

// TestRings: no link of software has any, so these are made up.
func TestRings(t *testing.T) {
	b := newBench(t)
	b.own.IP(t, "tuntap add dev eth9 mode tap")
	r := &ringed{Kernel: b.Kernel, rings: kernel.Rings{RX: 256, TX: 512, MaxRX: 4096, MaxTX: 1024}}
	b.restartOn(r)
	rings := func(want string) {
		t.Helper()
		if got := fmt.Sprint(r.rings.RX, r.rings.TX); got != want {
			t.Errorf("rings are %s, want %s", got, want)
		}
	}
	b.make("up", `{"existing":{},"host_name":"eth9","rings":{"rx":1024}}`)
	rings("1024 512")
	b.same("up")
	for _, value := range []string{`{"rx":1024,"tx":64}`, `{"tx":128}`} {
		if err := b.update("up", `{"existing":{},"host_name":"eth9","rings":`+value+`}`); err != nil {
			t.Fatal(err)
		}
		b.same("up")
	}
	rings("256 128")
	r.rings.TX = 64
	if got := b.look("up")["interface/up"].Value.GetRings().GetTx(); got != 64 {
		t.Errorf("the drift does not show: %d", got)
	}
	r.rings.TX = 128
	before := r.sets
	b.restartOn(r)
	b.make("up", `{"existing":{},"host_name":"eth9","rings":{"tx":128}}`)
	if r.sets != before {
		t.Error("a restart writes")
	}
	refused(t, b.update("up", `{"existing":{},"host_name":"eth9","rings":{"rx":9999}}`), "rings.rx: the device takes at most 4096, not 9999")
	refused(t, b.update("up", `{"existing":{},"host_name":"eth9","rings":{"tx":9999}}`), "rings.tx: the device takes at most 1024, not 9999")
	refused(t, b.update("up", `{"existing":{},"host_name":"eth9","rings":{"rx":100}}`), "the device made rx 128, ")
	if err := b.update("up", `{"existing":{},"host_name":"eth9","rings":{"rx":128}}`); err != nil {
		t.Fatal(err)
	}
	if err := b.delete("up"); err != nil {
		t.Fatal(err)
	}
	rings("256 512")
}
