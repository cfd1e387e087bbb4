package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/plugins/netlink"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestStory plays a story with processes, and with the proxies of the kernel in memory, which
// has to know as much of them.
func TestStory(t *testing.T) {
	hosttest.OnEachKernel(t, func(t *testing.T, h *hosttest.Host) {
		p := &player{t: t, Host: h, dir: t.TempDir(), made: map[string]kernel.ProxyProcess{}, others: map[string]func(){}}
		p.blue, p.path = h.Named(t, "blue")
		for _, ns := range []kernel.NS{h.Own(), p.blue} {
			h.Do(t, ns, "ip link set lo up")
		}
		switch k := h.Kernel.(type) {
		case *kerneltest.Kernel:
			p.Proxies, p.listen = k.Proxies(), func(at kernel.ProxyEnd) (func(), error) { return k.Listen(at, "somebody") }
			p.kill = func(one kernel.ProxyProcess) error { k.KillProxies(one.Mark); return nil }
			p.remove = func(path string) error { k.RemoveFile(path); return nil }
		case *netlink.Kernel:
			processes := New(k, Options{Dir: filepath.Join(p.dir, "proxies")})
			t.Cleanup(processes.Close)
			p.Proxies, p.listen = processes, func(at kernel.ProxyEnd) (func(), error) { return somebody(k, at) }
			p.kill = func(one kernel.ProxyProcess) error { return syscall.Kill(one.PID, syscall.SIGKILL) }
			p.remove = os.Remove
		}
		p.play()
	})
}

// somebody listens at a place.
func somebody(k *netlink.Kernel, at kernel.ProxyEnd) (stop func(), err error) {
	var held io.Closer
	listen := func() (err error) {
		if at.Protocol == "udp" {
			held, err = net.ListenPacket("udp", at.Address)
		} else {
			held, err = net.Listen(at.Protocol, at.Address)
		}
		return err
	}
	if at.NS == 0 {
		err = listen()
	} else {
		err = k.Within(at.NS, 0, listen)
	}
	if err != nil {
		return nil, err
	}
	return func() { held.Close() }, nil
}

type player struct {
	*hosttest.Host
	kernel.Proxies
	t      *testing.T
	dir    string
	blue   kernel.NS
	path   string // of blue
	made   map[string]kernel.ProxyProcess
	others map[string]func()

	listen func(at kernel.ProxyEnd) (stop func(), err error)
	kill   func(kernel.ProxyProcess) error
	remove func(path string) error

	mu    sync.Mutex
	ended []string
}

func (p *player) play() {
	ctx, cancel := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		p.WatchProxies(ctx, func(mark string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.ended = append(p.ended, strings.TrimPrefix(mark, label))
		})
	}()
	p.t.Cleanup(func() {
		for _, one := range p.made {
			_ = p.StopProxy(context.Background(), one)
		}
		for _, stop := range p.others {
			stop()
		}
		cancel()
		<-watched
	})
	datadriven.RunTest(p.t, "testdata/story", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			words := strings.Fields(strings.ReplaceAll(line, "DIR", p.dir))
			text, err := p.act(words[0], words[1:])
			fmt.Fprintf(&b, "%s: %s\n", line, strings.ReplaceAll(p.said(text, err), p.dir, "DIR"))
		}
		return b.String()
	})
}

// end is one of words: the protocol, the address and the namespace, own if there is none.
func (p *player) end(words []string) kernel.ProxyEnd {
	end := kernel.ProxyEnd{NS: p.Own(), Protocol: words[0], Address: words[1]}
	switch {
	case strings.HasPrefix(end.Address, "/"):
		end.NS = 0
	case len(words) > 2 && words[2] == "blue":
		end.NS, end.Path = p.blue, p.path
	}
	return end
}

func (p *player) act(act string, words []string) (text string, err error) {
	ctx, name := p.t.Context(), words[0]
	one := p.made[name]
	switch act {
	case "start", "crash", "again": // again: it is known that an earlier one was to be made there
		s := kernel.Proxy{Mark: label + name, Listen: p.end(words[1:]), Mode: 0o600, Rules: kernel.ProxyRules{Address: "127.0.0.1:1"},
			Forward: kernel.ProxyEnd{NS: p.blue, Path: p.path, Protocol: "tcp", Address: "127.0.0.1:1"}}
		if act == "again" {
			s.Since = time.Now().Add(-time.Hour)
		}
		made, err := p.StartProxy(ctx, s, func(kernel.ProxyProcess) error {
			if act == "crash" {
				return errors.New("it is not recorded")
			}
			return nil
		})
		if err == nil {
			p.made[name] = made
		}
		return "", err
	case "ip":
		return "", kerneltest.IP(p, p.Own(), strings.Join(append([]string{act}, words...), " "))
	case "listen":
		p.others[words[1]], err = p.listen(p.end(words))
		return "", err
	case "leave":
		p.others[name]()
		delete(p.others, name)
	case "read":
		s, err := p.ReadProxy(ctx, one)
		return s.Rules.Address, err
	case "file":
		mode, err := p.ProxyFile(one)
		return fmt.Sprintf("%04o", mode), err
	case "set":
		mode, err := strconv.ParseUint(words[2], 8, 32)
		if err != nil {
			return "", err
		}
		return "", p.SetProxy(ctx, one, kernel.ProxyRules{Address: words[1]}, uint32(mode))
	case "stop":
		return "", p.StopProxy(ctx, one)
	case "kill":
		return "", p.kill(one)
	case "rm":
		return "", p.remove(name)
	case "ended":
		netlinktest.Eventually(p.t, "the end of "+name, func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return strings.Join(p.ended, " ") == name
		})
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = nil
	case "running":
		all, err := p.MarkedProxies()
		if err != nil {
			return "", err
		}
		var names []string
		for _, one := range all {
			if name, mine := strings.CutPrefix(one.Mark, label); mine {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " "), nil
	default:
		p.t.Fatalf("unknown command %q", act)
	}
	return "", nil
}

// said is an answer in words. Who somebody is differs.
func (p *player) said(text string, err error) string {
	var taken *kernel.TakenError
	switch {
	case err == nil && text == "":
		return "done"
	case err == nil:
		return text
	case errors.As(err, &taken) && taken.Mark != "":
		return fmt.Sprintf("%s is in use by %s", taken.Address, strings.TrimPrefix(taken.Mark, label))
	case errors.As(err, &taken):
		return fmt.Sprintf("%s is in use", taken.Address)
	}
	for _, known := range []error{kernel.ErrProxyEnded, kernel.ErrNotExist, kernel.ErrNoNamespace} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	_, words, prefixed := strings.Cut(err.Error(), "start a proxy: ")
	if prefixed {
		return words
	}
	return err.Error()
}
