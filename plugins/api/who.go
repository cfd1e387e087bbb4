package api

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/private"
	"github.com/plumb-net/plumb/plugins/safetext"
)

// callerKey is where a context has who called.
type callerKey struct{}

// caller is who called.
type caller struct {
	// who is for people, with all that is known; name is the same without what follows.
	who, name string
	role      access.Role
	// from is an address, or socket.
	from string
}

// withPeer notes who is at the other end of a connection, as the kernel tells.
func withPeer(ctx context.Context, c net.Conn) context.Context {
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return ctx
	}
	p, err := private.Peer(conn)
	if err != nil {
		return ctx
	}
	name := describe(p)
	return context.WithValue(ctx, callerKey{}, caller{who: name, name: name, role: access.Admin, from: "socket"})
}

// describe is a peer for people: "root for amy (agentctl, process 1234)". Who logged in is
// told beside whose rights are used, since everybody here is root.
func describe(p private.Credentials) string {
	out := userName(p.UID)
	if login, err := private.LoginUID(p.PID); err == nil && login != p.UID {
		out += " for " + userName(login)
	}
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", p.PID))
	if err != nil {
		return fmt.Sprintf("%s (process %d)", out, p.PID)
	}
	return fmt.Sprintf("%s (%s, process %d)", out, safetext.Line(strings.TrimSpace(string(name))), p.PID)
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return fmt.Sprintf("user %d", uid)
}

// callerOf is who called; nobody if that is not known.
func callerOf(ctx context.Context) caller {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c
	}
	return caller{who: "somebody", name: "somebody"}
}

// As is a context in which methods of a server are called within this process, by an
// operator whom nobody has proved to be who he says: he has come by what the agent watches.
func As(ctx context.Context, by string) context.Context {
	by = safetext.Line(by)
	return context.WithValue(ctx, callerKey{}, caller{who: by, name: by, role: access.Operator, from: "etcd"})
}

// who is who called, for people.
func who(ctx context.Context) string { return callerOf(ctx).who }
