package models

import (
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Reach says how far values may reach into the host, beyond what is made for them:
// into namespaces that are named by pid or path, and, in the agent's own namespace, to
// links that somebody else has made, settings of the kernel, and the hooks of its
// packet filter, to what listens there and to socket files; and everywhere to files with
// keys, which the agent reads as root. Each list holds patterns; one that is nil is the
// default's.
type Reach struct {
	// Paths are files of namespaces, as for path.Match.
	Paths []string
	// MorePaths are allowed besides the default's.
	MorePaths []string
	// NamedDir is the directory of named namespaces.
	NamedDir string
	// PIDs is "isolated" for processes with a network namespace other than the
	// host's, "any" or "none".
	PIDs string
	// Existing are names of links as for path.Match; "virtual" stands for those that
	// Uplink says nothing of.
	Existing []string
	// Sysctls are settings; one that ends in .* stands for all below.
	Sysctls []string
	// Hooks are "type:hook" of chains, as for path.Match; that of flowtables is
	// "flowtable:ingress".
	Hooks []string
	// KeyFiles are files with the keys of tunnels, as for path.Match.
	KeyFiles []string
	// Proxies are "listen:PROTOCOL:ADDRESS" and "forward:PROTOCOL:ADDRESS" of the ends of
	// proxies that are in the agent's own namespace or are socket files, as for path.Match.
	// What is forwarded to the loopback begins with "forward:loopback:" instead, to an address
	// of the link with "forward:linklocal:", and a name without a file with "listen:abstract:"
	// or "forward:abstract:". The same words are for what nat rules write into packets; what
	// they compute for each packet is "forward:computed".
	Proxies []string

	// IsHost reports whether a file is the network namespace of the host or of the
	// agent. Nil means that none is.
	IsHost func(file string) bool
	// Uplink says why the host needs a link of the agent's namespace, "" if it does
	// not. Nil means that it needs none.
	Uplink func(link string) string
}

// What may be reached if nothing is said.
var (
	// defaultPaths are where the tools of hosts and runtimes keep namespaces. What is
	// below /proc is subject to PIDs as well.
	defaultPaths = []string{"/run/netns/*", "/var/run/netns/*", "/run/docker/netns/*", "/var/run/docker/netns/*",
		"/proc/*/ns/net", "/proc/*/task/*/ns/net"}
	defaultExisting = []string{"virtual"}
	defaultSysctls  = []string{"net.ipv4.*", "net.ipv6.*", "net.bridge.*", "net.mpls.*", "net.netfilter.*"}
	defaultHooks    = []string{"nat:*", "filter:forward", "filter:postrouting", "route:output"}
	defaultKeyFiles = []string{"/etc/plumb/keys/*", "/etc/wireguard/*"}
	// What listens on the loopback or at a name without a file trusts the host's users, and
	// metadata services of clouds at 169.254.169.254 trust the host.
	defaultProxies = []string{"listen:tcp:*", "listen:udp:*", "forward:tcp:*", "forward:udp:*",
		"listen:unix:" + ProxyDir + "/*", "forward:unix:" + ProxyDir + "/*"}
)

// ProxyDir is where socket files of proxies may be if nothing is said.
const ProxyDir = "/run/plumb-proxy"

// ReachAny and ReachNone stand for everything and nothing in a list.
const (
	ReachAny  = "any"
	ReachNone = "none"
)

// Check says which fields of a valid value reach too far, as an *InvalidError, or nil.
func (r Reach) Check(key string, msg proto.Message) error {
	f := findings{}
	c := &reachCheck{Reach: r, key: key, found: &f}
	for _, n := range namespacesIn(nil, msg.ProtoReflect(), "") {
		c.namespace(n.in, n.at)
	}
	switch v := msg.(type) {
	case *Interface:
		if (v.GetExisting() != nil || v.Adopt) && c.bounded(v.Namespace) {
			c.existing(v)
		}
		if w := v.GetWireguard(); w != nil {
			c.keyFile(w.PrivateKeyFile, "wireguard.private_key_file")
			for i, p := range w.Peers {
				c.keyFile(p.PresharedKeyFile, fmt.Sprintf("wireguard.peers[%d].preshared_key_file", i))
			}
		}
	case *Sysctl:
		if c.bounded(v.Namespace) {
			c.sysctl(v)
		}
	case *Nftables:
		if c.bounded(v.Namespace) {
			c.hooks(v)
			c.targets(v)
		}
	case *IPPool:
		c.pool(v)
	case *Proxy:
		c.proxyEnd("listen", v.GetListen().EffectiveProtocol(), v.GetListen().EffectiveAddress(), v.GetListen().GetNamespace())
		c.proxyEnd("forward", v.ForwardProtocol(), v.GetForward().EffectiveAddress(), v.GetForward().GetNamespace())
	}
	return f.err()
}

type reachCheck struct {
	Reach
	key   string
	found *findings
}

// refuse names the field, what the policy says, and what would allow it.
func (c *reachCheck) refuse(field, what, word string, now []string, want string) {
	c.found.add(field, "%s: the agent's policy for values from etcd has %s=%s; who runs the host allows it with the setting policy: %q",
		what, word, strings.Join(now, "|"), c.key+" "+word+"="+want)
}

// named is a namespace, and the field that names it.
type named struct {
	in *Namespace
	at string
}

// namespacesIn adds what every field names that names a namespace, in whichever kind.
func namespacesIn(all []named, m protoreflect.Message, at string) []named {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		where := join(at, string(f.Name()))
		switch {
		case f.Kind() != protoreflect.MessageKind || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				all = namespacesIn(all, v.List().Get(i).Message(), fmt.Sprintf("%s[%d]", where, i))
			}
		default:
			if ns, ok := v.Message().Interface().(*Namespace); ok {
				all = append(all, named{ns, where})
			} else {
				all = namespacesIn(all, v.Message(), where)
			}
		}
		return true
	})
	return all
}

func (c *reachCheck) namespace(ns *Namespace, at string) {
	switch in := ns.GetIn().(type) {
	case *Namespace_Pid:
		c.process(join(at, "pid"), processFile(in.Pid), fmt.Sprintf("process %d", in.Pid))
	case *Namespace_Path:
		field := join(at, "path")
		paths := orList(c.Paths, append(slices.Clone(defaultPaths), c.MorePaths...))
		switch {
		case !InReach(paths, in.Path):
			c.refuse(field, in.Path+" is not where namespaces may be named by path", "path", paths, in.Path)
		case c.Paths == nil && strings.HasPrefix(in.Path, "/proc/"):
			c.process(field, in.Path, in.Path)
		default:
			c.place(field, in.Path, paths)
		}
	case *Namespace_Netns:
		c.place(join(at, "netns"), c.file(ns), orList(c.Paths, append(slices.Clone(defaultPaths), c.MorePaths...)))
	}
}

// place refuses a file that is the namespace of the host or of the agent, unless the
// policy names this very file: a pattern does not name what happens to match it.
func (c *reachCheck) place(field, file string, paths []string) {
	if c.host(file) && (c.Paths == nil || !NamesHost(c.Paths, file)) {
		c.refuse(field, file+" is the network namespace of the host or of the agent (leave namespace out for the agent's own)", "path", paths, file)
	}
}

// NamesHost reports whether a list of paths names a file itself, or is any. Only then may
// the file be the namespace of the host: a wildcard also matches names that are made later.
func NamesHost(paths []string, file string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return p == ReachAny || p == file && !strings.ContainsAny(p, "*?[\\") })
}

// file returns the file by which a selector names a namespace; "" for selectors that a
// container runtime resolves.
func (c *reachCheck) file(ns *Namespace) string {
	switch in := ns.GetIn().(type) {
	case *Namespace_Pid:
		return processFile(in.Pid)
	case *Namespace_Path:
		return in.Path
	case *Namespace_Netns:
		return path.Join(c.NamedDir, in.Netns)
	}
	return ""
}

func processFile(pid uint32) string { return fmt.Sprintf("/proc/%d/ns/net", pid) }

// bounded reports whether the policy for the agent's own namespace applies: the selector is
// unset, or leads to the namespace of the host or of the agent.
func (c *reachCheck) bounded(ns *Namespace) bool {
	if ns == nil {
		return true
	}
	file := c.file(ns)
	return file != "" && c.host(file)
}

func (c *reachCheck) process(field, file, what string) {
	mode := c.PIDs
	if mode == "" {
		mode = "isolated"
	}
	switch {
	case mode == ReachNone:
		c.refuse(field, what+" may not be named", "pid", []string{mode}, "isolated")
	case mode != ReachAny && c.host(file):
		c.refuse(field, what+" is in the network namespace of the host or of the agent (leave namespace out for the agent's own)", "pid", []string{mode}, ReachAny)
	}
}

func (c *reachCheck) host(file string) bool { return c.IsHost != nil && c.IsHost(file) }

func (c *reachCheck) existing(v *Interface) {
	link, field := v.EffectiveHostName(c.key), "existing"
	if v.Adopt {
		field = "adopt"
	}
	allowed, why := orList(c.Existing, defaultExisting), ""
	if InReach(allowed, link) {
		return
	}
	if slices.Contains(allowed, "virtual") {
		if c.Uplink != nil {
			why = c.Uplink(link)
		}
		if why == "" {
			return
		}
		why = ", which " + why
	}
	c.refuse(field, "no value may take over "+link+why, "existing", allowed, link)
}

func (c *reachCheck) sysctl(v *Sysctl) {
	allowed, place := orList(c.Sysctls, defaultSysctls), v.Path()
	if c.Sysctls == nil && path.Base(place) == "route_localnet" {
		c.refuse("key", v.Key+" lets the network reach what listens on the loopback of the agent's namespace", "sysctl", allowed, v.Key)
		return
	}
	for _, p := range allowed {
		at := (&Sysctl{Key: p}).Path()
		below, all := strings.CutSuffix(at, "*")
		if p == ReachAny || place == at || all && strings.HasPrefix(place, below) {
			return
		}
	}
	c.refuse("key", v.Key+" may not be set in the namespace of the agent", "sysctl", allowed, v.Key)
}

func (c *reachCheck) hooks(v *Nftables) {
	allowed := orList(c.Hooks, defaultHooks)
	for i, chain := range v.Chains {
		hook := chain.Type + ":" + chain.Hook
		if chain.Hook != "" && !InReach(allowed, hook) {
			c.refuse(fmt.Sprintf("chains[%d].hook", i), "a chain of the namespace of the agent may not have the hook "+hook, "hook", allowed, hook)
		}
	}
	const fast = "flowtable:ingress"
	for i := range v.Flowtables {
		if !InReach(allowed, fast) {
			c.refuse(fmt.Sprintf("flowtables[%d]", i), "no flowtable may be in the namespace of the agent, where packets would pass by the host's own chains", "hook", allowed, fast)
		}
	}
}

func (c *reachCheck) keyFile(file, at string) {
	allowed := orList(c.KeyFiles, defaultKeyFiles)
	if file != "" && !InReach(allowed, file) {
		c.refuse(at, file+" is not where files with keys may be named", "key", allowed, file)
	}
}

// proxyEnd checks an end of a proxy that is in the agent's namespace or file system.
func (c *reachCheck) proxyEnd(side, protocol, address string, ns *Namespace) {
	a, err := netip.ParseAddrPort(address)
	class := protocol
	switch {
	case !c.bounded(ns):
		return
	case isAbstract(address):
		class = "abstract"
	case side == "forward" && err == nil:
		class = orDefault(localClass(a.Addr()), class)
	}
	allowed, end := orList(c.Proxies, defaultProxies), side+":"+class+":"+address
	if !InReach(allowed, end) {
		what := map[string]string{"listen": "listen at", "forward": "forward to"}[side]
		c.refuse(side+".address", "no value may "+what+" "+address+" of the agent's own namespace or files", "proxy", allowed, end)
	}
}

func orList(list, or []string) []string {
	if list == nil {
		return or
	}
	return list
}

// InReach reports whether a pattern of the list fits.
func InReach(list []string, s string) bool {
	return slices.ContainsFunc(list, func(p string) bool {
		ok, err := path.Match(p, s)
		return p == ReachAny || p != ReachNone && err == nil && ok
	})
}

// ProxiesInside is what [Reach.Proxies] is where the agent looks after a namespace that is
// not the host's: all that is in it, and of files as ever.
func ProxiesInside() []string {
	return append(slices.Clone(defaultProxies), "forward:loopback:*", "forward:linklocal:*", "forward:computed", "listen:abstract:*", "forward:abstract:*")
}
