package address

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// The values of duplicate_detection. duplicate occurs only in actual values, when the kernel has detected
// another host with the address.
const (
	noDetection = "none"
	duplicate   = "duplicate"
)

// A detection takes up to two seconds with the settings of the kernel: one until it begins, one for
// the answer to one solicitation (RFC 4862, section 5.4).
const (
	detectionTime = 10 * time.Second
	detectionPoll = 50 * time.Millisecond
	// carrierTime bounds the wait for the other end of a new cable to be set up.
	carrierTime = 3 * time.Second
)

// isDetected reports whether the kernel has added the address and detects other hosts that have it.
func (j *job) isDetected() bool {
	return j.err == nil && j.addr.Prefix.Addr().Is6() && !j.addr.NoDetection
}

// awaitDetection waits until the kernel has found out whether other hosts have the addresses. On a
// link without a carrier it begins when there is one, and is not waited for, except on a cable whose other
// end is about to be set up.
func (d *address) awaitDetection(ctx context.Context, await []*job) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, detectionTime)
	defer cancel()
	for len(await) > 0 {
		read := d.reader(len(await))
		await = slices.DeleteFunc(slices.Clone(await), func(j *job) bool { return !d.isDetecting(read, j, time.Since(began) < carrierTime) })
		if len(await) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			for _, j := range await {
				j.unusable = fmt.Errorf("the kernel did not decide within %v whether another host on the link has %s; see dad_transmits and retrans_timer of the link, or set duplicate_detection: none", detectionTime, j.addr.Prefix)
			}
			return
		case <-time.After(detectionPoll):
		}
	}
}

// isDetecting reports whether the detection for an address is under way. The job gets an error if it has
// found another host, or if the address was removed.
func (d *address) isDetecting(read readLink, j *job, awaitCarrier bool) bool {
	there, err := read(j.op.Meta.LinkRef)
	if err != nil {
		return false // the next reading of the address shows the rest
	}
	i := slices.IndexFunc(there, func(a kernel.Address) bool { return a.Prefix == j.addr.Prefix })
	switch {
	case i < 0: // for instance because IPv6 was disabled
		j.unusable = errRemoved
		return false
	case !there[i].Tentative:
		return false
	case there[i].Duplicate:
		j.unusable = duplicated(there[i])
		return false
	}
	carrier, err := d.Kernel.Carrier(j.op.Meta.LinkRef)
	return err == nil && (carrier || awaitCarrier && d.isCable(j.op.Value.GetInterface()))
}

// isCable reports whether an interface is the end of a cable whose other end is desired to be up.
func (d *address) isCable(name string) bool {
	peer := d.interfaceOf(name).GetVeth().GetPeer()
	if peer == "" {
		return false
	}
	other, desired := d.Interfaces.Wanted(scheduler.Key(models.InterfaceKey(peer)))
	return desired && other.IsEnabled()
}

// duplicated is the error of an address that another host has.
func duplicated(a kernel.Address) error {
	return fmt.Errorf("another host on the link has %s, so the kernel does not use it; remove it there, or choose another address", a.Prefix)
}
