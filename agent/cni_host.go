package agent

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/proxy"
)

// cniHost implements [cni.Host] for this machine.
type cniHost struct{ *agent }

var _ cni.Host = cniHost{}

func (h cniHost) Boot() string { return h.host.boot }

// Namespace reads the file itself, since the state of the scheduler may be older.
func (h cniHost) Namespace(path string) (inode uint64, own bool) {
	var fs unix.Statfs_t
	var st, first unix.Stat_t
	if unix.Statfs(path, &fs) != nil || fs.Type != unix.NSFS_MAGIC || unix.Stat(path, &st) != nil {
		return 0, false
	}
	if ofAnotherType(path) {
		return 0, false
	}
	if unix.Stat("/proc/1/ns/net", &first) == nil && st.Ino == first.Ino && st.Dev == first.Dev {
		return st.Ino, true
	}
	return st.Ino, st.Ino == uint64(h.host.kernel.Own())
}

// ofAnotherType reports whether a namespace file is not that of a network namespace. It returns
// false if the file cannot be opened, as at the limit of open files.
func ofAnotherType(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	kind, err := unix.IoctlRetInt(fd, unix.NS_GET_NSTYPE)
	return err == nil && kind != unix.CLONE_NEWNET
}

func (h cniHost) Running(id string) (running, sure bool) {
	c, err := h.tracker.Container(id)
	switch {
	case errors.Is(err, container.ErrAmbiguous):
		return true, true
	case err == nil && c.GetContainerId() == id:
		return c.GetPid() != 0, true
	case err == nil: // id is a prefix or name of another container
		_, err = h.tracker.Containers()
		return false, err == nil
	}
	return false, !errors.Is(err, container.ErrUnknown)
}

func (h cniHost) Watch(ctx context.Context, f func(ids ...string)) error {
	return h.tracker.Watch(ctx, func(keys ...string) {
		var ids []string
		for _, k := range keys {
			if strings.HasPrefix(k, models.KindContainer+"/") {
				ids = append(ids, k[strings.LastIndexByte(k, ':')+1:])
			}
		}
		if len(ids) > 0 || len(keys) == 0 {
			f(ids...)
		}
	})
}

func (h cniHost) Carries(at kernel.LinkRef) bool {
	running, err := h.host.kernel.Running(at)
	return err == nil && running
}

func (h cniHost) DeleteFlows(of ...netip.Addr) error {
	var like []kernel.Flow
	for _, a := range of {
		like = append(like, kernel.WithAddress(a)...)
	}
	_, err := h.host.kernel.DeleteFlows(h.host.kernel.Own(), func(kernel.Flow) bool { return true }, like...)
	return err
}

func (h cniHost) Listener(protocol string, at netip.AddrPort) (by string) {
	// The agent may manage another namespace than that of its process. If it cannot enter that
	// namespace, ADDs fail anyway.
	_ = h.host.kernel.within(h.host.kernel.Own(), func() error {
		by = proxy.Listener(protocol, at)
		return nil
	})
	return by
}

func (h cniHost) Full(pool string) bool { return h.host.book.Full(pool) }

func (h cniHost) User(pool string, a netip.Addr) string { return h.host.book.User(pool, a) }

// kindsOfCNI are the kinds that every attachment requires.
var kindsOfCNI = []string{models.KindInterface, models.KindAddress, models.KindRoute, models.KindIPPool, models.KindIPClaim, models.KindNamespace}

func (h cniHost) Trouble() (unready, lost string) {
	for _, k := range h.sched.Kinds() {
		if k.Unread != "" && slices.Contains(kindsOfCNI, k.Name) {
			return "", "the " + k.Name + "s of this host cannot be read: " + k.Unread
		}
	}
	if s := h.schedulerHealth(); s.State == "starting" || s.State == "down" {
		return s.Reason, ""
	}
	return "", ""
}

func (h cniHost) Frozen() string {
	if f := h.freezer.Frozen(); f != nil {
		return whyFrozen(f)
	}
	return ""
}

func (h cniHost) Lost() string { return h.host.lost.String() }

func (h cniHost) Containers() (ids []string) {
	all, _ := h.tracker.Containers() // an error leaves the known ones
	for _, c := range all {
		ids = append(ids, c.GetContainerId())
	}
	return ids
}

func (h cniHost) Leave(r cni.Request) error { return cni.Queue{Dir: h.config.RunDir}.Leave(r) }

func (h cniHost) Paths() map[uint64]string {
	paths := map[uint64]string{}
	for _, path := range namespacePaths(h.config) {
		if inode, _ := h.Namespace(path); paths[inode] == "" {
			paths[inode] = path
		}
	}
	return paths
}
