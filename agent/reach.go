package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// reachRule is what a policy says of one thing that values may reach.
type reachRule struct {
	keys scheduler.Key // as in scheduler.Policy
	word string
	list []string
}

// reachLists are the words of a policy for how far values reach, each with its list.
var reachLists = []struct {
	word string
	of   func(*models.Reach) *[]string // nil for pid
}{
	{"path", func(r *models.Reach) *[]string { return &r.Paths }},
	{"pid", nil},
	{"existing", func(r *models.Reach) *[]string { return &r.Existing }},
	{"sysctl", func(r *models.Reach) *[]string { return &r.Sysctls }},
	{"hook", func(r *models.Reach) *[]string { return &r.Hooks }},
	{"key", func(r *models.Reach) *[]string { return &r.KeyFiles }},
	{"proxy", func(r *models.Reach) *[]string { return &r.Proxies }},
}

func reachWords() (words []string) {
	for _, l := range reachLists {
		words = append(words, l.word)
	}
	return words
}

func isReach(word string) bool { return slices.Contains(reachWords(), word) }

func newReachRule(keys scheduler.Key, word, value string) (reachRule, error) {
	r := reachRule{keys: keys, word: word, list: strings.Split(value, "|")}
	if word == "pid" {
		if !slices.Contains([]string{"isolated", models.ReachAny, models.ReachNone}, value) {
			return r, fmt.Errorf("pid=%s: want isolated, any or none", value)
		}
		return r, nil
	}
	for _, p := range r.list {
		if _, err := path.Match(p, ""); p == "" || err != nil {
			return r, fmt.Errorf("%s=%s: want patterns separated by |, or any, or none", word, value)
		}
		if (word == "path" || word == "key") && p != models.ReachAny && p != models.ReachNone && !path.IsAbs(p) {
			return r, fmt.Errorf("%s=%s: want paths from /, such as /run/netns/*, or any, or none", word, value)
		}
	}
	return r, nil
}

func (p policies) hasReach(r reachRule) bool {
	return slices.ContainsFunc(p.reach, func(o reachRule) bool { return o.keys == r.keys && o.word == r.word })
}

// covers reports whether the pattern fits the key.
func (r reachRule) covers(key string) bool {
	p := string(r.keys)
	return p == "" || p == key || strings.HasSuffix(p, "/") && strings.HasPrefix(key, p)
}

// reach judges how far the values of the store reach into this host. What files and
// container runtimes want is root's own wish and is not judged.
type reach struct {
	kernel   kernel.Kernel
	rules    []reachRule
	defaults models.Reach
	device   uint64          // of the file system of namespaces
	host     map[uint64]bool // inodes of the namespaces of the host and of the agent

	// The first namespace of the kernel is the host's, also for an agent in a container
	// that cannot see process 1 of the host. Until it is known, each namespace is examined.
	mu      sync.Mutex
	first   bool            // the first namespace is known
	another map[uint64]bool // inodes of namespaces that are not the first
}

func newReach(k kernel.Kernel, netnsDir string, rules []reachRule) *reach {
	r := &reach{kernel: k, rules: rules, host: map[uint64]bool{uint64(k.Own()): true}, another: map[uint64]bool{}}
	r.defaults = models.Reach{NamedDir: netnsDir, IsHost: r.isHost, Uplink: r.uplink}
	if netnsDir != Default().NetnsDir {
		r.defaults.MorePaths = []string{filepath.Join(netnsDir, "*")}
	}
	_, first := identityOf("/proc/1/ns/net")
	device, here := identityOf("/proc/self/ns/net")
	if first == 0 {
		first = here // process 1 is out of sight
	}
	r.device = device
	for _, ns := range []uint64{first, here} {
		if ns != 0 {
			r.host[ns] = true
			r.first = r.first || isFirst(here, ns)
		}
	}
	if first != uint64(k.Own()) {
		// The agent looks after a namespace that is not the host's; what is in it is
		// there for that.
		everything := []string{models.ReachAny}
		r.defaults.Existing, r.defaults.Sysctls, r.defaults.Hooks = everything, everything, everything
		r.defaults.Proxies = models.ProxiesInside()
	}
	return r
}

// identityOf returns the device and the inode of a file, 0 and 0 if there is none.
func identityOf(file string) (device, inode uint64) {
	st, err := os.Stat(file)
	if err != nil {
		return 0, 0
	}
	sys := st.Sys().(*syscall.Stat_t)
	return sys.Dev, sys.Ino
}

// firstOnly is a setting that only the first network namespace of the kernel has.
const firstOnly = "net/core/netdev_max_backlog"

// isFirst reports whether a namespace is the one that this process is in, and the first.
func isFirst(here, ns uint64) bool {
	_, err := os.Stat("/proc/sys/" + firstOnly)
	return ns == here && err == nil
}

// isHost reports whether the file is the host's namespace or may be: nobody may name a
// file that is hidden even from root.
func (r *reach) isHost(file string) bool {
	if _, err := os.Stat(file); err != nil {
		return errors.Is(err, fs.ErrPermission)
	}
	device, inode := identityOf(file)
	if device != r.device {
		return false // not a namespace
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.host[inode]
}

// namespaces returns the inodes of the namespaces of the host and of the agent.
func (r *reach) namespaces() []uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.host))
}

// isHosts reports whether an open namespace is the host's or the agent's.
func (r *reach) isHosts(inode uint64) bool {
	r.mu.Lock()
	known, host := r.first || r.another[inode], r.host[inode]
	r.mu.Unlock()
	if known || host {
		return host
	}
	_, err := r.kernel.Sysctl(kernel.NS(inode), firstOnly)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.host[inode], r.first = true, true
	case errors.Is(err, kernel.ErrNotExist):
		if len(r.another) >= maxAnother {
			clear(r.another)
		}
		r.another[inode] = true // for good: the first namespace never ends, so its inode is not given again
	}
	return r.host[inode]
}

// maxAnother bounds what is remembered of namespaces.
const maxAnother = 1 << 14

// decode reads a value of the store, and refuses one that reaches too far.
func (r *reach) decode(key string, text []byte) (proto.Message, error) {
	msg, err := models.Decode(key, text)
	if err != nil {
		return nil, err
	}
	if err := r.of(key).Check(key, msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// of is what the key may reach: each word as the longest pattern says that has it.
func (r *reach) of(key string) models.Reach {
	if len(r.rules) == 0 {
		return r.defaults
	}
	out := r.defaults
	for _, l := range reachLists {
		best := -1
		for _, rule := range r.rules {
			if rule.word != l.word || !rule.covers(key) || len(rule.keys) <= best {
				continue
			}
			best = len(rule.keys)
			if l.of == nil {
				out.PIDs = rule.list[0]
			} else {
				*l.of(&out) = rule.list
			}
		}
	}
	return out
}

// refused reports whether a namespace that a selector led to is the host's or the agent's
// and no rule allows that. It judges the open namespace: a name, a process and a file may
// have been another's when the value was decoded.
func (r *reach) refused(in *models.Namespace, inode uint64) bool {
	if r == nil || in.GetIn() == nil || !r.isHosts(inode) {
		return false
	}
	for _, rule := range r.rules {
		switch in := in.GetIn().(type) {
		case *models.Namespace_Pid:
			if rule.word == "pid" && rule.list[0] == models.ReachAny {
				return false
			}
		case *models.Namespace_Path:
			if rule.word == "path" && models.NamesHost(rule.list, in.Path) {
				return false
			}
		case *models.Namespace_Netns:
			if rule.word == "path" && models.NamesHost(rule.list, filepath.Join(r.defaults.NamedDir, in.Netns)) {
				return false
			}
		}
	}
	return true
}

// uplink says why the host needs a link of the agent's namespace.
func (r *reach) uplink(name string) string {
	if _, err := os.Stat(filepath.Join("/sys/class/net", filepath.Base(name), "device")); err == nil {
		return "is a physical device"
	}
	link, err := r.kernel.Link(r.kernel.Own(), name)
	if err != nil {
		return uplinkByName(name)
	}
	routes, err := r.kernel.Routes(r.kernel.Own())
	if err != nil {
		return "may carry the default route: the routes cannot be read: " + err.Error()
	}
	for _, route := range routes {
		ours := kernel.IsMarked(route.Protocol)
		through := route.Index == link.Index || slices.ContainsFunc(route.NextHops, func(h kernel.NextHop) bool { return h.Index == link.Index })
		if route.Dst.Bits() == 0 && through && !ours {
			return "carries a default route that is not ours"
		}
	}
	return ""
}

// physicalNames begin the names that the kernel and udev give to devices.
var physicalNames = []string{"eth", "en", "wl", "ww", "ib"}

// uplinkByName judges a link that is not there yet, as a cable that is not plugged.
func uplinkByName(name string) string {
	if slices.ContainsFunc(physicalNames, func(p string) bool { return strings.HasPrefix(name, p) }) {
		return "is not there and has the name of a physical device"
	}
	return ""
}
