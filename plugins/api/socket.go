package api

import (
	"log/slog"
	"net"

	"github.com/plumb-net/plumb/plugins/private"
)

// Listen makes the socket of the agent, for root and the agent's own user.
func Listen(path string, log *slog.Logger) (net.Listener, error) {
	l, err := private.Listen(path)
	if err != nil {
		return nil, err
	}
	if log != nil {
		l.Refused = func(uid int, err error) {
			log.Warn("a connection to the API was refused: only root and the agent's user may connect", "uid", uid, "error", err)
		}
	}
	return l, nil
}
