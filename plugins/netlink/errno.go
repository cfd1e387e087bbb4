package netlink

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// ErrClosed is returned by a Kernel after Close.
var ErrClosed = errors.New("kernel is closed")

// errInterrupted says that the objects changed under a dump, which may be
// inconsistent and is to be read again.
var errInterrupted = errors.New("dump was interrupted")

// refusal is a request that the kernel answered with an error.
type refusal struct {
	errno unix.Errno
	why   string // the kernel's own words, if it had any
}

func (r *refusal) Error() string {
	if r.why == "" {
		return r.errno.Error()
	}
	return fmt.Sprintf("%s (%s)", r.errno.Error(), r.why)
}

func (r *refusal) Unwrap() error { return r.errno }

// refused adds to an error the sentinel of the port that it stands for.
func refused(err error) error {
	if s := sentinel(err); s != nil && !errors.Is(err, s) {
		return fmt.Errorf("%w: %w", s, err)
	}
	return err
}

func sentinel(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case unix.EEXIST:
		return kernel.ErrExist
	case unix.ENODEV, unix.ENOENT, unix.ESRCH, unix.EADDRNOTAVAIL, unix.ENXIO:
		return kernel.ErrNotExist
	case unix.ENETDOWN:
		return kernel.ErrDown
	case unix.EOPNOTSUPP, unix.EAFNOSUPPORT, unix.EPROTONOSUPPORT:
		return kernel.ErrUnsupported
	}
	return nil
}

// noDeviceType is the message of the kernel, since Linux 5.2, for a link type that it lacks.
const noDeviceType = "Unknown device type"

// withoutVLANs returns the error of a kernel whose bridges have no VLANs, and which therefore refuses
// settings of a bridge; nil if it refuses them for another reason.
func withoutVLANs(s *kernel.BridgeSpec, err error) error {
	var r *refusal
	if s == nil || s.VLANFiltering == nil || !errors.As(err, &r) || r.errno != unix.EOPNOTSUPP || r.why == noDeviceType {
		return nil
	}
	return fmt.Errorf("%w; its bridges have no VLANs (CONFIG_BRIDGE_VLAN_FILTERING)", refused(err))
}

// modules names the kernel module behind a link type where it differs from it.
var modules = map[string]string{"vlan": "8021q", "tun": "tun"}

// unknownType explains what it takes to have a link type.
func unknownType(kind string, err error) error {
	module := modules[kind]
	if module == "" {
		module = kind
	}
	if !errors.Is(err, kernel.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", kernel.ErrUnsupported, err)
	}
	return fmt.Errorf("%w; it has no links of type %q: is its module there (modprobe %s)?", err, kind, module)
}
