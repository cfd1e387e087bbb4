package probe_test

import (
	"context"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParse(t *testing.T) {
	for _, c := range []struct{ text, ns, key, err string }{
		{"ping:self:10.0.0.1", "self", "", ""},
		{"ping:blue:fd00::1", "blue", "", ""},
		{"ping:microservice:web:fe80::1%eth0", "microservice:web", "", ""},
		{"tcp:self:10.0.0.1:80", "self", "", ""},
		{"tcp:microservice:web:[fd00::1]:80", "microservice:web", "", ""},
		{"tcp:blue:fd00::1:80", "blue", "", ""},
		{"key:interface/web", "", "interface/web", ""},
		{"exec:test -e /x: or not", "", "", ""},
		{"ping:self", "", "", "it names no namespace: self, a netns, or microservice:LABEL"},
		{"ping:self:", "", "", `"" is no IP address; write ping:NS:IP`},
		{"ping::10.0.0.1", "", "", "it names no namespace: self, a netns, or microservice:LABEL"},
		{"ping:microservice::10.0.0.1", "", "", "it names no namespace: self, a netns, or microservice:LABEL"},
		{"ping:self:example.com", "", "", `"example.com" is no IP address; write ping:NS:IP`},
		{"tcp:self:10.0.0.1", "", "", `"10.0.0.1" is no address with a port; write tcp:NS:IP:PORT`},
		{"tcp:self:10.0.0.1:0", "", "", `"10.0.0.1:0" is no address with a port; write tcp:NS:IP:PORT`},
		{"tcp:self:[fd00::1]", "", "", `"[fd00::1]" is no address with a port; write tcp:NS:IP:PORT`},
		{"key:web", "", "", `"web" is no key; write key:KIND/NAME`},
		{"exec: ", "", "", "there is no command; write exec:CMD"},
		{"http://x", "", "", "there are ping:NS:IP, tcp:NS:IP:PORT, key:KEY and exec:CMD"},
		{"", "", "", "there are ping:NS:IP, tcp:NS:IP:PORT, key:KEY and exec:CMD"},
	} {
		p, err := probe.Parse(c.text)
		if c.err != "" {
			if err == nil || !strings.HasSuffix(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.text, err, c.err)
			}
		} else if err != nil || p.NS != c.ns || p.Key != c.key || p.String() != c.text {
			t.Errorf("%s: %+v %v", c.text, p, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"ping:self:10.0.0.1", "tcp:microservice:web:[fd00::1]:80", "key:a/b", "exec:true"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := probe.Parse(text); err == nil && p.String() != text {
			t.Errorf("%q is read as %q", text, p)
		}
	})
}

// TestRun asks this machine itself.
func TestRun(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("pings need root")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := l.Addr().String()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	defer l.Close()
	for text, want := range map[string]string{
		"ping:self:127.0.0.1":                     "",
		"ping:self:::1":                           "",
		"ping:self:::ffff:127.0.0.1":              "",
		"tcp:self:" + open:                        "",
		"tcp:self:" + closed.Addr().String():      "connection refused",
		"exec:true":                               "",
		"exec:echo first; echo second >&2; false": "exit status 1: second",
		"exec:exit 3":                             "exit status 3",
		"exec:sleep 60 & sleep 60":                "signal: killed",
	} {
		p, err := probe.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		got := ""
		if err := p.Run(ctx); err != nil {
			got = err.Error()
		}
		cancel()
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestPingUnanswered: the wait for an answer ends with its context.
func TestPingUnanswered(t *testing.T) {
	p, _ := probe.Parse("ping:self:127.0.0.1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err == nil || err.Error() != "no answer" {
		t.Error(err)
	}
}
