package embedded

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var (
	errAgentEnded = errors.New("the agent ended")
	errStopped    = errors.New("etcd stopped by itself")
)

// Process is a server that runs in a process of its own.
type Process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	story *story
	done  chan struct{}
	end   error // why it ended; written before done is closed
}

// Launch starts a server in a process of its own and returns when it is ready.
// An error says why it is not, as far as the process could tell.
func Launch(ctx context.Context, c Config) (*Process, error) {
	ready, said := make(chan struct{}), ""
	tells := &story{log: c.Log}
	tells.again.Store(c.Again)
	p, err := start(order{Serve: &c}, tells, func(stdout io.Reader) string {
		eachLine(stdout, func(line string) {
			if line == saysReady {
				tells.again.Store(false)
				close(ready)
			} else if text, ok := strings.CutPrefix(line, saysError); ok {
				said = text
			}
		})
		return said
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-ready:
		return p, nil
	case <-p.done:
		return nil, p.end
	case <-ctx.Done():
		p.kill()
		return nil, context.Cause(ctx)
	}
}

// start starts this program with an order. listen reads its standard output to
// the end and returns the error that was told there, if one was.
func start(o order, tells *story, listen func(io.Reader) string) (*Process, error) {
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	p := &Process{done: make(chan struct{}), story: tells}
	// The file that runs, also when an upgrade has put another in its place.
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Args = []string{os.Args[0] + " (embedded etcd)"}
	p.cmd.Env = append(os.Environ(), asServer+"="+string(text))
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("embedded etcd: its process cannot be started: %w", err)
	}
	go p.follow(stdout, stderr, listen)
	return p, nil
}

// follow reads what the process says, until it ends.
func (p *Process) follow(stdout, stderr io.Reader, listen func(io.Reader) string) {
	var reading sync.WaitGroup
	reading.Go(func() { p.story.read(stderr) })
	said := listen(stdout)
	reading.Wait()
	err := p.cmd.Wait()
	_ = p.stdin.Close()
	switch last := p.story.last(); {
	case said != "" && last != "" && !strings.Contains(said, last):
		p.end = fmt.Errorf("%s (%s)", said, last)
	case said != "" || last != "":
		p.end = errors.New(cmp.Or(said, last))
	case err != nil:
		p.end = fmt.Errorf("its process ended: %w", err)
	default:
		p.end = errStopped
	}
	close(p.done)
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says why the process ended, once Done is closed.
func (p *Process) Err() error { return p.end }

// Close stops the server. It does not wait for clients.
func (p *Process) Close() {
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(closeTime):
		p.kill()
	}
}

func (p *Process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// story is what the process logs. It goes on to our log; what it said before
// it ended is the best answer to why it ended.
type story struct {
	log   *slog.Logger // nil drops it
	again atomic.Bool  // it was said before
	was   string       // what was said last: etcd repeats itself without a pause
	fatal string       // of the last line of the log that ends a process
	panic string       // the first line of a panic
}

// last says why the process ended, if it said so.
func (s *story) last() string { return cmp.Or(s.fatal, s.panic) }

func (s *story) read(r io.Reader) {
	eachLine(r, func(line string) {
		if line == "" {
			return
		}
		var fields map[string]any
		if json.Unmarshal([]byte(line), &fields) != nil {
			s.raw(line)
			return
		}
		var level slog.Level
		text, _ := fields[slog.LevelKey].(string)
		if level.UnmarshalText([]byte(text)) != nil {
			s.raw(line)
			return
		}
		if level >= slog.LevelError {
			s.fatal = said(fields)
		}
		s.pass(level, fields)
	})
}

// raw takes a line that no log wrote: those of a panic.
func (s *story) raw(line string) {
	for _, begin := range []string{"panic: ", "fatal error: ", "unexpected fault address"} {
		if s.panic == "" && strings.HasPrefix(line, begin) {
			s.panic = line
		}
	}
	s.pass(slog.LevelDebug, map[string]any{"message": line})
}

// said is the message of a line with its error.
func said(fields map[string]any) string {
	text := fmt.Sprint(fields["message"])
	if err, ok := fields["error"]; ok {
		text += ": " + fmt.Sprint(err)
	}
	return text
}

func (s *story) pass(level slog.Level, fields map[string]any) {
	now := said(fields)
	if now == s.was {
		return
	}
	s.was = now
	if s.again.Load() {
		level = slog.LevelDebug
	}
	if s.log == nil || !s.log.Enabled(context.Background(), level) {
		return
	}
	attrs := []slog.Attr{slog.Any("message", fields["message"])}
	for _, key := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey, "message"} {
		delete(fields, key)
	}
	for k, v := range fields {
		attrs = append(attrs, slog.Any(k, v))
	}
	slices.SortFunc(attrs[1:], func(a, b slog.Attr) int {
		return strings.Compare(a.Key, b.Key)
	})
	s.log.LogAttrs(context.Background(), level, "etcd says", attrs...)
}

// maxLine bounds what is kept of one line.
const maxLine = 64 << 10

// eachLine calls f with every line, until the end.
func eachLine(r io.Reader, f func(string)) {
	b := bufio.NewReaderSize(r, maxLine)
	for {
		line, rest, err := b.ReadLine()
		if err != nil {
			return
		}
		f(string(line))
		for rest && err == nil { // what is longer is cut
			_, rest, err = b.ReadLine()
		}
	}
}
