package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
	"github.com/plumb-net/plumb/plugins/private"
)

// socketOfHelper is the variable by which the test binary is told to be an agent at a socket.
const socketOfHelper = "PLUMB_TEST_AGENT"

func TestMain(m *testing.M) {
	if socket := os.Getenv(socketOfHelper); socket != "" {
		fmt.Println(beAgent(socket))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// slow is an agent whose waits and streams do not end.
type slow struct {
	apiv1connect.UnimplementedAgentHandler
}

func (slow) Get(context.Context, *apiv1.GetRequest) (*apiv1.KeyStatus, error) {
	return &apiv1.KeyStatus{Key: "a/b"}, nil
}

func (slow) Wait(ctx context.Context, r *apiv1.WaitRequest) (*apiv1.WaitResponse, error) {
	if d := r.Timeout.AsDuration(); d > 0 {
		select {
		case <-time.After(d):
			return &apiv1.WaitResponse{}, nil
		case <-ctx.Done():
		}
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

func (slow) Watch(ctx context.Context, _ *apiv1.WatchRequest, s *connect.ServerStream[apiv1.WatchResponse]) error {
	if err := s.Send(&apiv1.WatchResponse{InSync: true}); err != nil {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

func beAgent(socket string) error {
	l, err := private.Listen(socket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle(apiv1connect.NewAgentHandler(slow{}))
	fmt.Println("ready")
	return http.Serve(l, mux)
}

// startAgent starts a process that is an agent.
func startAgent(t *testing.T) (socket string, p *os.Process) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), socketOfHelper+"="+socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return socket, cmd.Process
}

// hasty is a client whose patience is short.
func hasty(socket string, p patience) *Client {
	c := New(socket)
	c.counted.RoundTripper.(*attentive).patience = p
	return c
}

// TestStoppedAgent: a call to an agent that is stopped ends, whatever the call and whenever the
// agent was stopped, and the error names the process, its state and the remedy.
func TestStoppedAgent(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx := t.Context()
	for name, call := range map[string]func(c *Client, stop func()) error{
		"a call": func(c *Client, stop func()) error {
			stop()
			_, err := c.Get(ctx, &apiv1.GetRequest{Key: "a/b"})
			return err
		},
		"a call by a connection that was open": func(c *Client, stop func()) error {
			if _, err := c.Get(ctx, &apiv1.GetRequest{Key: "a/b"}); err != nil {
				return fmt.Errorf("before: %w", err)
			}
			stop()
			_, err := c.Get(ctx, &apiv1.GetRequest{Key: "a/b"})
			return err
		},
		"a wait with a longer limit": func(c *Client, stop func()) error {
			stop()
			_, err := c.Wait(ctx, &apiv1.WaitRequest{Keys: []string{"a/b"}})
			return err
		},
		"a page": func(c *Client, stop func()) error {
			stop()
			_, _, err := c.Page(ctx, "/metrics")
			return err
		},
		"a stream": func(c *Client, stop func()) error {
			s, err := c.Watch(ctx, &apiv1.WatchRequest{})
			if err != nil || !s.Receive() {
				return fmt.Errorf("before: %w", errors.Join(err, s.Err()))
			}
			defer s.Close()
			stop()
			for s.Receive() {
			}
			return s.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			socket, agent := startAgent(t)
			c := hasty(socket, patience{every: 10 * time.Millisecond, stopped: 10 * time.Millisecond, silent: time.Minute})
			defer c.Close()
			err := call(c, func() {
				if err := agent.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
				for !private.Stopped(agent.Pid) { // soon
					runtime.Gosched()
				}
			})
			var silent *Silent
			if !errors.As(err, &silent) {
				t.Fatalf("it ends with %v", err)
			}
			got := c.Explain(err).Error()
			want := regexp.MustCompile(fmt.Sprintf(`: process %d \(.+\) is stopped; resume it with: kill -CONT %d$`, agent.Pid, agent.Pid))
			if !want.MatchString(got) || !strings.Contains(got, socket) {
				t.Errorf("it says %q, not %q", got, want)
			}
			if err := agent.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			again := New(socket)
			defer again.Close()
			if k, err := again.Get(ctx, &apiv1.GetRequest{Key: "a/b"}); err != nil || k.Key != "a/b" {
				t.Errorf("once it goes on: %v, %v", k, err)
			}
		})
	}
}

// TestSlowCall: a call that takes longer than the patience goes on, since the agent answers.
func TestSlowCall(t *testing.T) {
	defer goleak.VerifyNone(t)
	socket, _ := startAgent(t)
	c := hasty(socket, patience{every: time.Millisecond, stopped: time.Millisecond, silent: time.Minute})
	defer c.Close()
	if _, err := c.Wait(t.Context(), &apiv1.WaitRequest{Keys: []string{"a/b"}, Timeout: durationpb.New(200 * time.Millisecond)}); err != nil {
		t.Error(err)
	}
}

// TestSilentAgent: an agent that is not stopped and answers nothing for long ends a call, too.
func TestSilentAgent(t *testing.T) {
	defer goleak.VerifyNone(t)
	socket := filepath.Join(t.TempDir(), "agent.sock")
	l, err := private.Listen(socket) // and nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c := hasty(socket, patience{every: time.Millisecond, stopped: time.Millisecond, silent: 20 * time.Millisecond})
	defer c.Close()
	_, err = c.Get(t.Context(), &apiv1.GetRequest{Key: "a/b"})
	if got := c.Explain(err); got == nil || !strings.Contains(got.Error(), fmt.Sprintf("process %d (", os.Getpid())) || !strings.Contains(got.Error(), "does not answer") {
		t.Errorf("it says %v", got)
	}
}

// TestInterrupted: a call that its caller ends is not called silence.
func TestInterrupted(t *testing.T) {
	defer goleak.VerifyNone(t)
	socket, _ := startAgent(t)
	c := hasty(socket, patience{every: time.Millisecond, stopped: time.Millisecond, silent: time.Minute})
	defer c.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s, err := c.Watch(ctx, &apiv1.WatchRequest{})
	if err != nil || !s.Receive() {
		t.Fatal(err, s.Err())
	}
	cancel()
	for s.Receive() {
	}
	if got := c.Explain(s.Err()); got == nil || got.Error() != "interrupted" {
		t.Errorf("it says %v", got)
	}
	s.Close()
}
