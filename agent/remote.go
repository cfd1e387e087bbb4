package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/access"
)

// accessFiles are the files that decide who may ask over the network.
func (c *Config) accessFiles() access.Files {
	return access.Files{Cert: c.TLSCert, Key: c.TLSKey, ClientCA: c.ClientCA, Tokens: c.Tokens}
}

// checkListen refuses every combination that would serve the API to strangers, or to nobody.
func (c *Config) checkListen() error {
	if c.Listen == "" {
		if c.accessFiles() != (access.Files{}) {
			return errors.New("tls-cert, tls-key, client-ca and tokens are for the API over the network: say where with listen, or leave them out")
		}
		return nil
	}
	_, port, err := net.SplitHostPort(c.Listen)
	if n, bad := strconv.ParseUint(port, 10, 16); err != nil || bad != nil || n == 0 {
		return fmt.Errorf("listen %q: want ADDRESS:PORT, such as 192.0.2.1:7443, or :7443 for all addresses", c.Listen)
	}
	return c.accessFiles().Check()
}

// openGate reads the files of those who may ask over the network; nil if nobody may.
func (a *agent) openGate() (*access.Gate, error) {
	if a.config.Listen == "" {
		return nil, nil
	}
	return access.Open(a.config.accessFiles(), access.Options{Log: a.log.With("part", "remote")})
}

// serveRemote serves the API over the network.
func (a *agent) serveRemote(ctx context.Context) error {
	lc := net.ListenConfig{Control: freebind}
	l, err := lc.Listen(ctx, "tcp", a.config.Listen)
	if err != nil {
		return err
	}
	a.log.Info("the API is served over the network", "listen", l.Addr(), "to", a.gate.Accepts())
	return a.api.ServeRemote(ctx, l, a.gate)
}

// freebind lets a socket have an address that is not there yet: the agent may be the one
// who makes it.
func freebind(network, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		if strings.HasSuffix(network, "4") {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_FREEBIND, 1)
		} else {
			failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
		}
	})
	return cmp.Or(err, failed)
}

// remoteHealth tells of files that cannot be used, since former ones are then.
func (a *agent) remoteHealth() []models.Health {
	if a.gate == nil {
		return nil
	}
	h := models.Health{Name: "remote", State: "ok", Since: a.started, Details: map[string]string{
		"listen": a.config.Listen, "accepts": a.gate.Accepts(), "certificate_ends": a.gate.Expires().UTC().Format(time.RFC3339)}}
	if err := a.gate.Trouble(); err != nil {
		h.State, h.Reason = "degraded", "what was in use before still is: "+strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	return []models.Health{h}
}
