package api

import (
	"log/slog"
	"net"

	"github.com/plumb-net/plumb/plugins/private"
)

// Listen makes the socket of the agent, for root and the agent's own user. If restored is not nil
// it is called with nil when the socket was removed and is there again, and with an error when it
// cannot be made again.
func Listen(path string, log *slog.Logger, restored func(error)) (net.Listener, error) {
	l, err := private.Listen(path)
	if err != nil {
		return nil, err
	}
	l.Restored = restored
	if log != nil {
		l.Refused = func(uid int, err error) {
			log.Warn("a connection to the API was refused: only root and the agent's user may connect", "uid", uid, "error", err)
		}
	}
	return l, nil
}
