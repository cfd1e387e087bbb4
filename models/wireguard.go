package models

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"strings"

	"google.golang.org/protobuf/proto"
)

// WireGuardKey is a key of WireGuard's, public, private or shared.
type WireGuardKey [32]byte

// ParseWireGuardKey reads a key as wg(8) writes it. The error does not tell the text.
func ParseWireGuardKey(text string) (k WireGuardKey, err error) {
	b, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(k) {
		return k, errors.New("no key as wg genkey and wg pubkey print it: 44 characters of base64, the last one =")
	}
	return WireGuardKey(b), nil
}

func (k WireGuardKey) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// WithoutEndpoints is a copy that says of no peer where it is.
func (x *Interface) WithoutEndpoints() *Interface {
	v := proto.CloneOf(x)
	for _, p := range v.GetWireguard().GetPeers() {
		p.Endpoint = ""
	}
	return v
}

func (x *WireGuard) check(f *findings) {
	checkFile(x.GetPrivateKeyFile(), "wireguard.private_key_file", true, f)
	keys, networks := map[WireGuardKey]int{}, map[netip.Prefix]string{}
	for i, p := range x.GetPeers() {
		at := fmt.Sprintf("wireguard.peers[%d]", i)
		p.check(at, f)
		if k, err := ParseWireGuardKey(p.GetPublicKey()); err == nil {
			if first, double := keys[k]; double {
				f.add(at+".public_key", "is that of peers[%d] already", first)
			} else {
				keys[k] = i
			}
		}
		for j, text := range p.GetAllowedIps() {
			at := fmt.Sprintf("%s.allowed_ips[%d]", at, j)
			n, ok := parseCIDR(text, at, f)
			if !ok {
				continue
			}
			if n != n.Masked() {
				f.add(at, "%s has host bits; did you mean %s?", n, n.Masked())
				continue
			}
			if first, double := networks[n]; double {
				f.add(at, "%s is in the list already, as %s; it can be behind one peer only", n, first)
				continue
			}
			networks[n] = strings.TrimPrefix(at, "wireguard.")
		}
	}
}

func (x *WireGuardPeer) check(at string, f *findings) {
	if x.GetPublicKey() == "" {
		f.add(at+".public_key", "must be given, as wg pubkey prints it")
	} else if _, err := ParseWireGuardKey(x.GetPublicKey()); err != nil {
		f.add(at+".public_key", "%v", err)
	}
	checkFile(x.GetPresharedKeyFile(), at+".preshared_key_file", false, f)
	if x.GetEndpoint() == "" {
		return
	}
	e, err := netip.ParseAddrPort(x.GetEndpoint())
	switch {
	case err != nil:
		f.add(at+".endpoint", "%q is no address with a port, such as 192.0.2.1:51820 or [2001:db8::1]:51820; names are not looked up", x.GetEndpoint())
	case e.Port() == 0:
		f.add(at+".endpoint", "the port must be from 1 to 65535, not 0")
	case checkAddr(e.Addr(), at+".endpoint", f):
		checkUnicast(e.Addr(), at+".endpoint", f)
	}
}

// checkFile checks the path of a file that the agent reads.
func checkFile(file, at string, required bool, f *findings) {
	switch {
	case file == "" && required:
		f.add(at, "must be given: the absolute path of a file")
	case file != "" && (!path.IsAbs(file) || path.Clean(file) != file):
		f.add(at, "%q is no absolute path without . and ..", file)
	}
}
