// Package probe asks whether something works: an answer to a ping, a connection, the state
// of a key, the success of a command. Probes are texts, so that they can be written in a
// command line and kept in a file:
//
//	ping:NS:IP           an answer to an echo request
//	tcp:NS:IP:PORT       a connection is taken
//	key:KEY              the key is configured
//	exec:CMD             the shell runs CMD, which ends with 0
//
// NS is self (the agent's namespace), the name of a netns, or microservice:LABEL.
package probe

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
)

// Probe is one question.
type Probe struct {
	text string
	// NS is where ping and tcp ask from; see the package.
	NS string
	// Key is the key of a key probe.
	Key string
	// Command: it runs one.
	Command bool

	run func(ctx context.Context) error
}

// Parse reads a probe. Its error says what would be right.
func Parse(text string) (Probe, error) {
	p, err := parse(text)
	if err != nil {
		return p, fmt.Errorf("probe %q: %w", text, err)
	}
	p.text = text
	return p, nil
}

func parse(text string) (p Probe, err error) {
	how, rest, _ := strings.Cut(text, ":")
	switch how {
	case "ping":
		var to string
		if p.NS, to, err = place(rest); err != nil {
			return p, err
		}
		addr, err := netip.ParseAddr(strings.Trim(to, "[]"))
		if err != nil {
			return p, fmt.Errorf("%q is no IP address; write ping:NS:IP", to)
		}
		p.run = func(ctx context.Context) error { return ping(ctx, addr) }
	case "tcp":
		var to string
		if p.NS, to, err = place(rest); err != nil {
			return p, err
		}
		addr, err := addrPort(to)
		if err != nil {
			return p, err
		}
		p.run = func(ctx context.Context) error { return connect(ctx, addr) }
	case "key":
		if !strings.Contains(rest, "/") {
			return p, fmt.Errorf("%q is no key; write key:KIND/NAME", rest)
		}
		p.Key = rest
	case "exec":
		if strings.TrimSpace(rest) == "" {
			return p, fmt.Errorf("there is no command; write exec:CMD")
		}
		p.Command = true
		p.run = func(ctx context.Context) error { return execute(ctx, rest) }
	default:
		return p, fmt.Errorf("there are ping:NS:IP, tcp:NS:IP:PORT, key:KEY and exec:CMD")
	}
	return p, nil
}

// place takes the namespace off.
func place(text string) (ns, rest string, err error) {
	ns, rest, found := strings.Cut(text, ":")
	if ns == "microservice" && found {
		var label string
		label, rest, found = strings.Cut(rest, ":")
		if ns = "microservice:" + label; label == "" {
			found = false
		}
	}
	if ns == "" || !found || strings.Contains(ns, "/") {
		return "", "", fmt.Errorf("it names no namespace: self, a netns, or microservice:LABEL")
	}
	return ns, rest, nil
}

// addrPort reads 10.0.0.1:80, [fd00::1]:80 and fd00::1:80, in which the last number is the
// port.
func addrPort(text string) (netip.AddrPort, error) {
	if at := strings.LastIndexByte(text, ':'); at > 0 && !strings.HasPrefix(text, "[") && strings.Count(text, ":") > 1 {
		text = "[" + text[:at] + "]" + text[at:]
	}
	out, err := netip.ParseAddrPort(text)
	if err != nil || out.Port() == 0 {
		return out, fmt.Errorf("%q is no address with a port; write tcp:NS:IP:PORT", text)
	}
	return out, nil
}

// String is the probe as it was written.
func (p Probe) String() string { return p.text }

// Run asks once, from the namespace in which the thread is, and says why the answer is no.
// A key probe is not for it: see Key. It ends with its context.
func (p Probe) Run(ctx context.Context) error { return p.run(ctx) }
