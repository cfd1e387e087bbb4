package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
	"github.com/plumb-net/plumb/plugins/progress"
)

// TestProgress reads testdata/progress: what is waited for, how keys change, and what is
// shown after each line. A line is a time, a key, its state and what it waits for; busy and
// base= may follow. The word sync says that the first picture is complete.
func TestProgress(t *testing.T) {
	datadriven.RunTest(t, "testdata/progress", func(t *testing.T, d *datadriven.TestData) string {
		a := awaited{goal: d.Cmd}
		for _, arg := range d.CmdArgs {
			switch arg.Key {
			case "keys":
				a.keys = arg.Vals
			case "gone":
				a.gone = arg.Vals
			}
		}
		s := newStanding(a)
		var b strings.Builder
		for line := range strings.Lines(d.Input) {
			words := strings.Fields(line)
			now, err := time.ParseDuration(words[0])
			if err != nil {
				t.Fatal(err)
			}
			m := &apiv1.WatchResponse{InSync: words[1] == "sync"}
			if len(words) > 2 {
				m.Changes = []*apiv1.KeyStatus{keyStatus(words[1], words[2:])}
			}
			s.take(m, now)
			b.WriteString(strings.Join(s.show(now), " | ") + "\n")
		}
		return b.String()
	})
}

func keyStatus(key string, words []string) *apiv1.KeyStatus {
	k := &apiv1.KeyStatus{Key: key, State: words[0]}
	for _, w := range words[1:] {
		switch base, derived := strings.CutPrefix(w, "base="); {
		case derived:
			k.Base = base
		case w == "busy":
			k.Busy = true
		default:
			k.Missing = append(k.Missing, &apiv1.Missing{Need: w})
		}
	}
	return k
}

// safeBuffer is a buffer that several goroutines write.
type safeBuffer struct {
	mu sync.Mutex // guards b
	b  strings.Builder
}

func (s *safeBuffer) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(text)
}

// String is what was written so far.
func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// A command that waits shows progress on a terminal, takes it away at the end, and
// leaves what it writes as it is; without a terminal there is none.
func TestLiveProgress(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // once the agent has ended
	agent := apitest.New()
	if err := agent.Script(`{"key":"interface/web","state":"pending","missing":[{"need":"microservice/web"}]}`); err != nil {
		t.Fatal(err)
	}
	socket := apitest.Serve(t, agent.Config())
	for _, onTerminal := range []bool{true, false} {
		var story safeBuffer
		e := env{args: strings.Fields("wait interface/web --timeout 1200ms --socket " + socket), stdin: strings.NewReader(""), stdout: io.Discard, stderr: &story,
			getenv: func(string) string { return "" }, now: apitest.Noon}
		if onTerminal {
			e.live = &progress.Terminal{To: &story, Width: func() int { return 80 }}
		}
		if code := run(context.Background(), e); code != 1 {
			t.Errorf("exit code %d", code)
		}
		const after = "timed out after 1.2s: not all keys are configured\n"
		drawn, isDrawn := strings.CutSuffix(story.b.String(), "\r\x1b[K"+after)
		switch {
		case onTerminal && (!isDrawn || !strings.Contains(drawn, "\r0 of 1 configured · 0 s · interface/web waits for microservice/web\x1b[K")):
			t.Errorf("on a terminal: %q", story.b.String())
		case !onTerminal && story.b.String() != after:
			t.Errorf("in a pipe: %q", story.b.String())
		}
	}
}

// A long answer shows how much of it has come; without a terminal nothing shows. The agent is
// behind a socket that passes on the beginning of the answer, and the rest once that was
// shown.
func TestDownload(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	agent := serve(t, long{})
	for _, command := range []string{"get -o json", "dump -o json", "history -o json", "slow"} {
		for _, onTerminal := range []bool{true, false} {
			var story safeBuffer
			shown := func() bool { return !onTerminal || strings.Contains(story.String(), "received") }
			e := env{args: strings.Fields(command + " --socket " + slowly(t, agent, shown)), stdin: strings.NewReader(""), stdout: io.Discard, stderr: &story,
				getenv: func(string) string { return "" }, now: apitest.Noon}
			if onTerminal {
				e.live = &progress.Terminal{To: &story, Width: func() int { return 80 }}
			}
			if code := run(context.Background(), e); code != 0 {
				t.Errorf("%s: exit code %d: %s", command, code, story.String())
			}
			drawn := strings.TrimSuffix(story.String(), "nothing was changed in that time, as far as the history goes back\n")
			switch {
			case onTerminal && (!strings.Contains(drawn, "B received · ") || !strings.HasSuffix(drawn, "\r\x1b[K")):
				t.Errorf("%s on a terminal: %q", command, drawn)
			case !onTerminal && drawn != "":
				t.Errorf("%s in a pipe: %q", command, drawn)
			}
		}
	}
}

// long is an agent whose answers are long.
type long struct {
	apiv1connect.UnimplementedAgentHandler
}

const many = 5000

func (long) List(context.Context, *apiv1.ListRequest) (*apiv1.ListResponse, error) {
	out := &apiv1.ListResponse{}
	for i := range many {
		out.Keys = append(out.Keys, &apiv1.KeyStatus{Key: fmt.Sprintf("interface/web%d", i), State: "pending"})
	}
	return out, nil
}

func (long) History(context.Context, *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
	out := &apiv1.HistoryResponse{}
	for i := range many {
		out.Records = append(out.Records, &apiv1.Record{Seq: uint64(i + 1), Source: "etcd", Note: "apply site.yaml"})
	}
	return out, nil
}

// serve serves an agent until the test ends, and returns its socket.
func serve(t *testing.T, agent apiv1connect.AgentHandler) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "agent.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle(apiv1connect.NewAgentHandler(agent))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() { srv.Close(); <-ended })
	return socket
}

// slowly passes one connection on to an agent, of whose answers it keeps back all but the
// first bytes until it may go on. It returns its socket.
func slowly(t *testing.T, agent string, mayGoOn func() bool) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "slow.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { l.Close(); all.Wait() })
	all.Go(func() {
		from, err := l.Accept()
		if err != nil {
			return
		}
		defer from.Close()
		to, err := net.Dial("unix", agent)
		if err != nil {
			t.Error(err)
			return
		}
		defer to.Close()
		all.Go(func() { _, _ = io.Copy(to, from); to.Close() })
		_, _ = io.CopyN(from, to, 32<<10)
		for until := time.Now().Add(time.Minute); !mayGoOn() && time.Now().Before(until); {
			time.Sleep(time.Millisecond)
		}
		_, _ = io.Copy(from, to)
	})
	return socket
}

// TestReceived: what is said of an answer of which so much has come.
func TestReceived(t *testing.T) {
	for bytes, want := range map[int64]string{0: "waiting for the agent", 512: "512B received", 1536: "1.5KiB received"} {
		if got := received(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}

// An undo that is waited for shows how far it is: the agent is asked for its plan to know
// which keys it writes. One that nobody waits for, or that is in a pipe, asks for none.
func TestProgressOfUndo(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	for _, c := range []struct {
		args             string
		onTerminal, asks bool
	}{{"undo --wait", true, true}, {"undo --wait", false, false}, {"undo", true, false}, {"undo --wait --dry-run", true, false}} {
		fake := &undoing{story: &safeBuffer{}, waits: c.asks}
		e := env{args: strings.Fields(c.args + " --socket " + serve(t, fake)), stdin: strings.NewReader(""), stdout: io.Discard, stderr: fake.story,
			getenv: func(string) string { return "" }, now: apitest.Noon}
		if c.onTerminal {
			e.live = &progress.Terminal{To: fake.story, Width: func() int { return 80 }}
		}
		if code := run(context.Background(), e); code != 0 {
			t.Errorf("%+v: exit code %d: %s", c, code, fake.story.String())
		}
		if shown := strings.Contains(fake.story.String(), "\r1 of 2 settled · "); shown != c.asks {
			t.Errorf("%+v: %q", c, fake.story.String())
		}
	}
}

// undoing is an agent that undoes what changed one key and made another, and has done so
// when that was shown.
type undoing struct {
	apiv1connect.UnimplementedAgentHandler
	story *safeBuffer
	waits bool
}

func (u *undoing) Undo(ctx context.Context, r *apiv1.UndoRequest) (*apiv1.UndoResponse, error) {
	out := &apiv1.UndoResponse{Seq: 17, Apply: &apiv1.ApplyResponse{Outcome: "configured"}}
	if r.Apply.DryRun {
		out.Apply = &apiv1.ApplyResponse{Outcome: "planned", Plan: &apiv1.PlanResponse{Request: &apiv1.PlanRequest{
			Items: []*apiv1.Item{{Key: "interface/web"}}, Delete: []string{"route/new"}}}}
		return out, nil
	}
	for until := time.Now().Add(time.Minute); u.waits && !strings.Contains(u.story.String(), "settled") && time.Now().Before(until); {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Millisecond):
		}
	}
	return out, nil
}

func (u *undoing) Watch(ctx context.Context, _ *apiv1.WatchRequest, s *connect.ServerStream[apiv1.WatchResponse]) error {
	if err := s.Send(&apiv1.WatchResponse{InSync: true, Changes: []*apiv1.KeyStatus{{Key: "interface/web", State: "pending", Busy: true}}}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
