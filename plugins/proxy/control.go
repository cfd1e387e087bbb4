package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// request is a question of the agent, one for a connection.
type request struct {
	// Set are new rules; nil: it only asks.
	Set *kernel.ProxyRules `json:"set,omitempty"`
}

// answer is what a process says.
type answer struct {
	Mark  string            `json:"mark"`
	PID   int               `json:"pid"`
	File  kernel.SocketFile `json:"file,omitzero"`
	State kernel.ProxyState `json:"state"`
}

// answerTime is how long a question and its answer may take.
const answerTime = 5 * time.Second

// answer answers the agent until the socket is closed.
func (s *service) answer(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err != nil {
			s.figures.note(&s.figures.failed, err)
			time.Sleep(100 * time.Millisecond) // no more files
			continue
		}
		go s.answerOne(c)
	}
}

func (s *service) answerOne(c net.Conn) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(answerTime))
	var r request
	if json.NewDecoder(c).Decode(&r) != nil {
		return
	}
	if r.Set != nil {
		s.set(*r.Set)
	}
	_ = json.NewEncoder(c).Encode(answer{Mark: s.order.Mark, PID: os.Getpid(), File: s.order.File,
		State: kernel.ProxyState{Rules: *s.rules.Load(), Figures: s.figures.all()}})
}

// ask asks a process.
func ask(ctx context.Context, p kernel.ProxyProcess, r request) (answer, error) {
	var a answer
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	err := at(p.Control, func(path string) error {
		var d net.Dialer
		c, err := d.DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		defer c.Close()
		stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		if err := json.NewEncoder(c).Encode(r); err != nil {
			return err
		}
		return json.NewDecoder(c).Decode(&a)
	})
	switch {
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("process %d does not answer within %s", p.PID, answerTime)
	case err != nil:
		err = fmt.Errorf("ask process %d: %w", p.PID, err)
	case a.Mark != p.Mark || p.PID != 0 && a.PID != p.PID:
		err = fmt.Errorf("%s is served by process %d of %s, not by process %d of %s", p.Control, a.PID, a.Mark, p.PID, p.Mark)
	}
	return a, err
}

// at calls f with a short path to the same file: the kernel takes 107 bytes for that of a
// socket.
func at(path string, f func(short string) error) error {
	dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: filepath.Dir(path), Err: err}
	}
	defer unix.Close(dir)
	return f(fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path)))
}
