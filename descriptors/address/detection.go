package address

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// The values of duplicate_detection. duplicate occurs in actual values only: the kernel has detected
// another host that has the address.
const (
	noDetection = "none"
	duplicate   = "duplicate"
)

// A detection takes up to two seconds with the settings of the kernel: one until it begins, one for
// the answer to one solicitation (RFC 4862, section 5.4).
const (
	detectionTime = 10 * time.Second
	detectionPoll = 50 * time.Millisecond
)

// awaitDetection waits until the kernel has found out whether other hosts have the new IPv6 addresses.
// On a link without carrier it begins when there is one, so that is not waited for.
func (d *address) awaitDetection(ctx context.Context, jobs []*job) {
	await := slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool {
		return j.err != nil || j.addr.NoDetection || !j.addr.Prefix.Addr().Is6()
	})
	ctx, cancel := context.WithTimeout(ctx, detectionTime)
	defer cancel()
	for len(await) > 0 {
		read := d.reader(len(await))
		await = slices.DeleteFunc(await, func(j *job) bool { return !d.isDetecting(read, j) })
		if len(await) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			for _, j := range await {
				j.unusable = fmt.Errorf("the kernel has not found out in %v whether another host on the link has %s; set duplicate_detection: none if none has", detectionTime, j.addr.Prefix)
			}
			return
		case <-time.After(detectionPoll):
		}
	}
}

// isDetecting reports whether the kernel still looks for hosts that have an address, and notes in the
// job if there is one.
func (d *address) isDetecting(read readLink, j *job) bool {
	there, err := read(j.op.Meta.LinkRef)
	if err != nil {
		return false // the next reading of the address shows the rest
	}
	i := slices.IndexFunc(there, func(a kernel.Address) bool { return a.Prefix == j.addr.Prefix })
	switch {
	case i < 0: // such as by net.ipv6.conf.all.disable_ipv6
		j.unusable = errRemoved
		return false
	case !there[i].Tentative:
		return false
	case there[i].Duplicate:
		j.unusable = duplicated(there[i])
		return false
	}
	carrier, err := d.Kernel.Carrier(j.op.Meta.LinkRef)
	return err == nil && carrier
}

// duplicated is the error of an address that another host has.
func duplicated(a kernel.Address) error {
	return fmt.Errorf("another host on the link has %s, so the kernel does not use it; remove it there, or choose another address", a.Prefix)
}
