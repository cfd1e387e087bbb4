// Command box is all that is in the demo's containers: it waits, pings, and
// breaks an address on purpose. So the demo needs no image from anywhere.
//
//	box wait                    until SIGTERM
//	box ping ADDRESS            until an answer comes, for at most 5 s
//	box unset-address LINK      take the IPv4 address off a link
package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "box:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "wait":
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
		<-end
		return nil
	case len(args) == 2 && args[0] == "ping":
		return ping(args[1])
	case len(args) == 2 && args[0] == "unset-address":
		return unsetAddress(args[1])
	}
	return errors.New("want wait, ping ADDRESS or unset-address LINK")
}

// ping sends an echo request every 100 ms until one is answered.
func ping(to string) error {
	addr, err := netip.ParseAddr(to)
	if err != nil {
		return err
	}
	conn, err := net.DialIP("ip4:icmp", nil, &net.IPAddr{IP: addr.AsSlice()})
	if err != nil {
		return err
	}
	defer conn.Close()
	id := uint16(os.Getpid())
	for seq := range uint16(50) {
		sent := time.Now()
		if _, err = conn.Write(echo(8, id, seq)); err == nil {
			if err = awaitEcho(conn, id, sent.Add(100*time.Millisecond)); err == nil {
				fmt.Printf("%s answers in %v\n", addr, time.Since(sent).Round(time.Microsecond))
				return nil
			}
		}
		time.Sleep(time.Until(sent.Add(100 * time.Millisecond)))
	}
	return fmt.Errorf("%s does not answer: %w", addr, err)
}

// awaitEcho reads until there is an answer to one of our requests.
func awaitEcho(conn *net.IPConn, id uint16, deadline time.Time) error {
	if err := conn.SetReadDeadline(deadline); err != nil {
		return err
	}
	packet := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFromIP(packet)
		if err != nil {
			return err
		}
		if n >= 8 && packet[0] == 0 && uint16(packet[4])<<8|uint16(packet[5]) == id {
			return nil
		}
	}
}

// echo is an ICMP message with its checksum: the complement of the sum of its
// 16-bit words in ones' complement.
func echo(kind byte, id, seq uint16) []byte {
	m := []byte{kind, 0, 0, 0, byte(id >> 8), byte(id), byte(seq >> 8), byte(seq)}
	var sum uint32
	for i := 0; i < len(m); i += 2 {
		sum += uint32(m[i])<<8 | uint32(m[i+1])
	}
	sum = sum>>16 + sum&0xffff
	sum += sum >> 16
	m[2], m[3] = byte(^sum>>8), byte(^sum)
	return m
}

// unsetAddress asks for the address 0.0.0.0, which takes the present one off.
func unsetAddress(link string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	request, err := unix.NewIfreq(link)
	if err != nil {
		return err
	}
	if err := request.SetInet4Addr([]byte{0, 0, 0, 0}); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFADDR, request)
}
