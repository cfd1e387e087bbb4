package models

import (
	"cmp"
	"net/netip"
	"path"
	"strconv"
	"strings"
	"unicode"
)

// Protocols of a proxy.
const (
	ProtocolTCP  = "tcp"
	ProtocolUDP  = "udp"
	ProtocolUnix = "unix"
)

var proxyProtocols = []string{ProtocolTCP, ProtocolUDP, ProtocolUnix}

// What a proxy does if nothing is said.
const (
	defaultProxyMode     = 0o600
	defaultProxySessions = 1024
	defaultProxyIdle     = 60
)

// maxUnix is how many bytes the address of a unix socket may have, without the zero at
// its end or the @ at its beginning.
const maxUnix = 107

// isUnix reports whether an address is one of a unix socket.
func isUnix(address string) bool { return strings.HasPrefix(address, "/") || isAbstract(address) }

// isAbstract reports whether an address is of a unix socket without a file.
func isAbstract(address string) bool { return strings.HasPrefix(address, "@") }

// EffectiveProtocol is the protocol by which clients come.
func (x *ProxyListen) EffectiveProtocol() string {
	return protocolOf(x.GetProtocol(), x.GetAddress(), ProtocolTCP)
}

// EffectiveAddress is the address in its one spelling.
func (x *ProxyListen) EffectiveAddress() string { return oneSpelling(x.GetAddress()) }

// EffectiveMode is who may connect to the socket file.
func (x *ProxyListen) EffectiveMode() uint32 {
	if mode, ok := parseMode(x.GetMode()); ok {
		return mode
	}
	return defaultProxyMode
}

// File is the socket file that the proxy makes, "" if it makes none.
func (x *ProxyListen) File() string {
	if x.EffectiveProtocol() == ProtocolUnix && !isAbstract(x.GetAddress()) {
		return x.GetAddress()
	}
	return ""
}

// ForwardProtocol is the protocol by which clients are forwarded.
func (x *Proxy) ForwardProtocol() string {
	like := ProtocolTCP
	if x.GetListen().EffectiveProtocol() == ProtocolUDP {
		like = ProtocolUDP
	}
	return protocolOf(x.GetForward().GetProtocol(), x.GetForward().GetAddress(), like)
}

// EffectiveAddress is the address in its one spelling.
func (x *ProxyForward) EffectiveAddress() string { return oneSpelling(x.GetAddress()) }

// EffectiveMaxSessions is how many clients there may be at a time.
func (x *Proxy) EffectiveMaxSessions() uint32 {
	return cmp.Or(x.GetMaxSessions(), defaultProxySessions)
}

// EffectiveIdleTimeout is after how many seconds a client of udp is forgotten.
func (x *Proxy) EffectiveIdleTimeout() uint32 {
	return cmp.Or(x.GetIdleTimeout(), defaultProxyIdle)
}

func protocolOf(said, address, otherwise string) string {
	switch {
	case said != "":
		return said
	case isUnix(address):
		return ProtocolUnix
	}
	return otherwise
}

func oneSpelling(address string) string {
	if a, err := netip.ParseAddrPort(address); err == nil {
		return a.String()
	}
	return address
}

func parseMode(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 8, 32)
	return uint32(n), err == nil && n <= 0o777 && len(text) >= 3 && len(text) <= 4
}

func (x *Proxy) check(f *findings) {
	if x.Listen == nil {
		f.add("listen", "must be given, such as {\"address\": \"0.0.0.0:8080\"}")
	}
	if x.Forward == nil {
		f.add("forward", "must be given, such as {\"namespace\": {\"microservice\": \"web\"}, \"address\": \"127.0.0.1:80\"}")
	}
	if x.Listen == nil || x.Forward == nil {
		return
	}
	before := len(f.fields)
	x.Listen.check(f)
	x.Forward.check(x.ForwardProtocol(), f)
	in, out := x.Listen.EffectiveProtocol(), x.ForwardProtocol()
	if (in == ProtocolUDP) != (out == ProtocolUDP) {
		f.add("forward.protocol", "is %s and that of listen is %s; datagrams of udp go to udp only, and tcp and unix to tcp or unix", out, in)
	}
	if x.IdleTimeout != 0 && in != ProtocolUDP {
		f.add("idle_timeout", "goes with udp only: connections of %s end when their ends say so", in)
	}
	if len(f.fields) == before && x.circle() {
		f.add("forward.address", "%s is where this proxy listens; it would forward to itself", x.Forward.Address)
	}
}

func (x *ProxyListen) check(f *findings) {
	protocol := x.EffectiveProtocol()
	checkEnd("listen", protocol, x.Address, x.Namespace, f)
	if a, err := netip.ParseAddrPort(x.Address); err == nil && !a.Addr().IsUnspecified() {
		checkUnicast(a.Addr(), "listen.address", f)
	}
	switch _, ok := parseMode(x.Mode); {
	case x.Mode == "":
	case x.File() == "":
		f.add("listen.mode", "goes with a socket file only, an address that begins with /")
	case !ok:
		f.add("listen.mode", "%q is no mode such as 0600 or 0666", x.Mode)
	}
}

func (x *ProxyForward) check(protocol string, f *findings) {
	checkEnd("forward", protocol, x.Address, x.Namespace, f)
	if a, err := netip.ParseAddrPort(x.Address); err == nil {
		checkUnicast(a.Addr(), "forward.address", f)
	}
}

// checkEnd checks what both ends have.
func checkEnd(at, protocol, address string, ns *Namespace, f *findings) {
	if ns != nil {
		ns.check(join(at, "namespace"), f)
	}
	field := join(at, "address")
	switch {
	case address == "" && protocol == ProtocolUnix:
		f.add(field, "must be given, such as /run/plumb-proxy/web.sock or @web")
	case address == "":
		f.add(field, "must be given, such as 127.0.0.1:80")
	case protocol != ProtocolUnix && isUnix(address):
		f.add(field, "%s is an address of a unix socket; %s has address and port, such as 127.0.0.1:80", address, protocol)
	case protocol != ProtocolUnix:
		checkSocket(address, field, f)
	case !isUnix(address):
		f.add(field, "%q is neither an absolute path, such as /run/plumb-proxy/web.sock, nor @NAME", address)
	default:
		checkUnix(address, field, f)
		if !isAbstract(address) && ns != nil {
			f.add(join(at, "namespace"), "a socket file belongs to no network namespace, it is found in the file system of the agent; leave namespace out, or use @NAME")
		}
	}
}

// checkSocket checks an address with a port.
func checkSocket(address, at string, f *findings) {
	a, err := netip.ParseAddrPort(address)
	if err != nil {
		if ip, bad := netip.ParseAddr(address); bad == nil {
			f.add(at, "%s has no port; did you mean %s?", address, netip.AddrPortFrom(ip, 80))
			return
		}
		f.add(at, "%q is no address and port such as 127.0.0.1:80 or [fd00::1]:80; names of hosts are not looked up", address)
		return
	}
	if checkAddr(a.Addr(), at, f) && a.Port() == 0 {
		f.add(at, "has port 0; write one from 1 to 65535")
	}
}

func checkUnix(address, at string, f *findings) {
	switch name := strings.TrimPrefix(address, "@"); {
	case name == "":
		f.add(at, "has no name after the @")
	case len(name) > maxUnix:
		f.add(at, "has %d bytes; the kernel takes %d of a unix socket", len(name), maxUnix)
	case strings.ContainsFunc(name, unicode.IsControl):
		f.add(at, "holds a control character")
	case !isAbstract(address) && path.Clean(address) != address:
		f.add(at, "must be written in its short form, %s", path.Clean(address))
	case address == "/":
		f.add(at, "is the root directory, and no socket file")
	}
}

// circle reports whether the proxy surely forwards to where it listens. Two selectors
// that mean one namespace are not known to do so.
func (x *Proxy) circle() bool {
	in, out := x.Listen, x.Forward
	if in.EffectiveProtocol() != x.ForwardProtocol() || in.Namespace.Text() != out.Namespace.Text() {
		return false
	}
	if in.EffectiveAddress() == out.EffectiveAddress() {
		return true
	}
	from, err := netip.ParseAddrPort(in.Address)
	to, err2 := netip.ParseAddrPort(out.Address)
	return err == nil && err2 == nil && from.Port() == to.Port() && from.Addr().IsUnspecified() && to.Addr().IsLoopback() &&
		(from.Addr().Is6() || to.Addr().Is4())
}
