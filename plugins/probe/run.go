package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// connect opens a connection and closes it.
func connect(ctx context.Context, to netip.AddrPort) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", to.String())
	if err != nil {
		return plain(err)
	}
	return conn.Close()
}

// plain is what the kernel said, without what was to be done, which the probe says.
func plain(err error) error {
	var no syscall.Errno
	if errors.As(err, &no) {
		return no
	}
	return err
}

// ping sends one echo request (RFC 792, RFC 4443) and waits for its answer.
func ping(ctx context.Context, to netip.Addr) error {
	network, own, request, reply := "ip4:icmp", "0.0.0.0", icmp.Type(ipv4.ICMPTypeEcho), icmp.Type(ipv4.ICMPTypeEchoReply)
	protocol := 1
	if to.Unmap().Is6() {
		network, own, request, reply = "ip6:ipv6-icmp", "::", ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
		protocol = 58
	}
	conn, err := icmp.ListenPacket(network, own)
	if err != nil {
		return plain(err)
	}
	defer conn.Close()
	// Raw sockets hear the answers to everybody: ours bear a number of this very call.
	echo := &icmp.Echo{ID: os.Getpid() & 0xffff, Seq: 1, Data: fmt.Append(nil, "plumb ", time.Now().UnixNano())}
	packet, err := (&icmp.Message{Type: request, Body: echo}).Marshal(nil)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := conn.WriteTo(packet, &net.IPAddr{IP: to.Unmap().AsSlice(), Zone: to.Zone()}); err != nil {
		return plain(err)
	}
	buffer := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if ctx.Err() != nil {
			return errors.New("no answer")
		}
		if err != nil {
			return plain(err)
		}
		m, err := icmp.ParseMessage(protocol, buffer[:n])
		if err != nil || m.Type != reply {
			continue
		}
		if got, is := m.Body.(*icmp.Echo); is && bytes.Equal(got.Data, echo.Data) {
			return nil
		}
	}
}

// lastWords bounds what is told of the output of a command.
const lastWords = 200

// execute has the shell run a command. What it started ends with it.
func execute(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; last != "" {
		return fmt.Errorf("%w: %s", err, last[:min(len(last), lastWords)])
	}
	return err
}
