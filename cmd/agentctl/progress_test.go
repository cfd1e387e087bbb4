package main

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
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

// A command that waits shows progress on a terminal, takes it away at the end, and
// leaves what it writes as it is; without a terminal there is none.
func TestLiveProgress(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) }) // once the agent has ended
	world := apitest.New()
	if err := world.Script(`{"key":"interface/web","state":"pending","missing":[{"need":"microservice/web"}]}`); err != nil {
		t.Fatal(err)
	}
	socket := apitest.Serve(t, world.Config())
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
