package e2e

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// TestClientsFollowAMovedPort: UDP clients that keep sending from one socket reach the container
// that currently publishes the host port, or a server of the host if none does. This also holds
// after the address of a former container has been assigned to another one.
func TestClientsFollowAMovedPort(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	containers := map[string]*netlinktest.Namespace{}
	for _, c := range []string{"c1", "c2", "c3", "client"} {
		containers[c] = h.Mount(c)
	}
	h.Own.Sysctl(t, "ipv4/ip_forward", "1")
	h.Start()
	gateway := add(t, h, "client", blue).IPs[0].Gateway
	at := func(c, ip string, published bool) string {
		capability := `"ips":["` + ip + `"]`
		if published {
			capability += `,"portMappings":[{"hostPort":5353,"containerPort":53,"protocol":"udp"}]`
		}
		return strings.Replace(blue, "{", `{"runtimeConfig":{`+capability+`},`, 1)
	}
	const taken = `{"runtimeConfig":{"portMappings":[{"hostPort":5353,"containerPort":53,"protocol":"udp"}]},`
	stopHost := serve(t, h.Own, "udp", ":5353", "host")
	senders := map[string]net.Conn{}
	for name, ns := range map[string]*netlinktest.Namespace{gateway: containers["client"], "127.0.0.1": h.Own} {
		if err := inside(ns, func() (err error) {
			senders[name], err = net.Dial("udp", name+":5353")
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer senders[name].Close()
	}
	answered := func(want string) {
		t.Helper()
		for name, c := range senders {
			buf := make([]byte, 100)
			_, _ = c.Write([]byte("x")) // a server that is not listening yet refuses it
			_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
			n, err := c.Read(buf)
			if got := string(buf[:n]); err != nil || got != want+": x" {
				t.Errorf("the client of %s gets %q, %v; want an answer of %s", name, got, err, want)
			}
		}
	}
	stops := map[string]func(){}
	run := func(c, config string) {
		t.Helper()
		add(t, h, c, config)
		if stops[c] == nil {
			stops[c] = serve(t, containers[c], "udp", ":53", c)
		}
	}
	end := func(c, config string) {
		t.Helper()
		if r := call(h, "DEL", c, config); r.Code != 0 {
			t.Fatalf("DEL %s: %s%s", c, r.Out, r.Err)
		}
	}
	answered("host")
	if r := call(h, "ADD", "c1", strings.Replace(blue, "{", taken, 1)); r.Code != 1 || !strings.Contains(r.Out, "udp port 5353 of the host is in use by process") {
		t.Errorf("ADD with a port that a process uses: exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	stopHost()
	first, second := at("c1", "10.62.0.10", true), at("c2", "10.62.0.20", true)
	run("c1", first)
	answered("c1")
	end("c1", first)
	run("c2", second)
	answered("c2")
	end("c2", second)
	serve(t, h.Own, "udp", ":5353", "host")
	run("c3", at("c3", "10.62.0.20", false)) // the address of c2, which published a port
	answered("host")
}
