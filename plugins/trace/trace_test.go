package trace

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/scheduler"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// TestTraces reads testdata/traces: records as they come, how time passes, and what a
// collector gets. Times are since the first record. Run with -rewrite to write what is new.
func TestTraces(t *testing.T) {
	s := listen(t, "127.0.0.1:0")
	tracer, err := New(Options{Endpoint: "http://" + s.address, Label: "host7", Version: "1.2.3", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.exporter.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	now, names := noon, map[string]string{}
	datadriven.RunTest(t, "testdata/traces", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "record":
			tracer.transactions.add(recordOf(t, d), now)
			return fmt.Sprintf("%d open", len(tracer.transactions.open))
		case "wait":
			passed, err := time.ParseDuration(d.CmdArgs[0].Key)
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(passed)
			tracer.send(t.Context(), tracer.transactions.quiet(now))
			return traces(s, names)
		case "end":
			if err := tracer.close(); err != nil {
				return err.Error()
			}
			return traces(s, names)
		}
		t.Fatalf("%s: want record, wait or end", d.Pos)
		return ""
	})
}

// recordOf reads a record: its head from the command, a step from each line.
func recordOf(t *testing.T, d *datadriven.TestData) (r scheduler.Record) {
	r.Time, r.AskedTotal = noon, 1
	at := func(text string) time.Duration {
		passed, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("%s: %v", d.Pos, err)
		}
		return passed
	}
	for _, a := range d.CmdArgs {
		switch v := a.Vals[0]; a.Key {
		case "seq":
			r.Seq, _ = strconv.ParseUint(v, 10, 64)
		case "source":
			r.Source = v
		case "note":
			r.Note = v
		case "keys":
			r.AskedTotal, _ = strconv.Atoi(v)
		case "dropped":
			r.Dropped, _ = strconv.Atoi(v)
		case "written":
			r.Written = noon.Add(at(v))
		case "settled":
			r.Settled = noon.Add(at(v))
		}
	}
	ops := map[string]scheduler.Operation{"create": scheduler.OpCreate, "update": scheduler.OpUpdate, "delete": scheduler.OpDelete, "look": scheduler.OpLook}
	for line := range strings.Lines(d.Input) {
		line, failure, _ := strings.Cut(strings.TrimSpace(line), " error=")
		if text, err := strconv.Unquote(failure); err == nil {
			failure = text
		}
		words := strings.Fields(line)
		step := scheduler.DoneStep{Op: ops[words[0]], Key: scheduler.Key(words[1]), Error: failure}
		for _, w := range words[2:] {
			switch name, v, _ := strings.Cut(w, "="); name {
			case "start":
				step.Start = noon.Add(at(v))
			case "took":
				step.Took = at(v)
			case "waited":
				step.Waited = at(v)
			case "via":
				step.Via = scheduler.Key(v)
			case "lapsed":
				step.Lapsed = true
			}
		}
		r.Done = append(r.Done, step)
	}
	return r
}

// traces shows what the collector got: spans below their parents, with all that they
// say. names are the roots by their ids.
func traces(s *sink, names map[string]string) string {
	var all []*trace.Span
	var b strings.Builder
	for _, r := range s.take() {
		for _, rs := range r.ResourceSpans {
			if len(names) == 0 { // the same each time
				for _, a := range rs.Resource.Attributes {
					v := a.Value.GetStringValue()
					if a.Key == "host.name" {
						v = fmt.Sprintf("(set: %t)", v != "")
					}
					fmt.Fprintf(&b, "%s=%s\n", a.Key, v)
				}
			}
			for _, ss := range rs.ScopeSpans {
				all = append(all, ss.Spans...)
			}
		}
	}
	slices.SortFunc(all, func(a, b *trace.Span) int {
		return cmp.Or(cmp.Compare(a.StartTimeUnixNano, b.StartTimeUnixNano), cmp.Compare(a.Name, b.Name))
	})
	children := map[string][]*trace.Span{}
	for _, span := range all {
		children[string(span.ParentSpanId)] = append(children[string(span.ParentSpanId)], span)
	}
	for _, span := range children[""] {
		writeSpan(&b, span, "")
		names[string(span.SpanId)] = span.Name
		for _, l := range span.Links {
			fmt.Fprintf(&b, "  link to %s, same trace: %t\n", names[string(l.SpanId)], string(l.TraceId) == string(span.TraceId))
		}
		for _, child := range children[string(span.SpanId)] {
			writeSpan(&b, child, "  ")
		}
	}
	return b.String()
}

func writeSpan(b *strings.Builder, s *trace.Span, indent string) {
	since := func(at uint64) time.Duration { return time.Duration(int64(at) - noon.UnixNano()) }
	fmt.Fprintf(b, "%s%s [%v, %v]", indent, s.Name, since(s.StartTimeUnixNano), since(s.EndTimeUnixNano))
	for _, a := range s.Attributes {
		fmt.Fprintf(b, " %s=%s", a.Key, valueText(a.Value))
	}
	if s.Status.GetCode() != trace.Status_STATUS_CODE_UNSET {
		fmt.Fprintf(b, " %s %q", s.Status.Code, s.Status.Message)
	}
	b.WriteByte('\n')
}

func valueText(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return strconv.Quote(v.StringValue)
	case *common.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *common.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	}
	return v.String()
}

// A transaction that goes on and on is sent in parts.
func TestLargeTransaction(t *testing.T) {
	tx := newTransactions(nil)
	r := scheduler.Record{Seq: 1, Time: noon, Source: "etcd", Done: make([]scheduler.DoneStep, maxSteps+1)}
	for i := range r.Done {
		r.Done[i] = scheduler.DoneStep{Op: scheduler.OpCreate, Key: "a/1", Start: noon}
	}
	tx.add(r, noon)
	if got := tx.quiet(noon); len(got) != maxSteps+2 || !tx.empty() || tx.steps != 0 {
		t.Errorf("%d spans, %d transactions open with %d steps", len(got), len(tx.open), tx.steps)
	}
}

// lines are what was logged.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func (l lines) expect(t *testing.T, what string) {
	t.Helper()
	select {
	case line := <-l:
		if !strings.Contains(line, what) {
			t.Fatalf("logged %q, want %q", line, what)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("not logged: %q", what)
	}
}

// history is a source that gets records from a test.
type history chan scheduler.Record

func (h history) Next(ctx context.Context) ([]scheduler.Record, error) {
	select {
	case r, more := <-h:
		if !more {
			return nil, scheduler.ErrStopped
		}
		return []scheduler.Record{r}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A collector that is down is told of once, and so is its return; what is sent after
// that arrives, also what is open at the end.
func TestCollectorDown(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := taken.Addr().String()
	taken.Close()
	log := make(lines, 16)
	tracer, err := New(Options{Endpoint: "http://" + address, Log: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	tracer.sendTime = 100 * time.Millisecond
	records, ended := make(history), make(chan error, 1)
	go func() { ended <- tracer.Run(context.Background(), records) }()
	seq := uint64(0)
	tell := func() {
		seq++
		records <- scheduler.Record{Seq: seq, Time: noon, Done: []scheduler.DoneStep{{Op: scheduler.OpCreate, Key: "a/1", Start: noon}}}
	}
	tell()
	log.expect(t, "traces cannot be sent, and are dropped")
	tell()
	time.Sleep(quietTime + 2*pace) // the second fails in silence
	s := listen(t, address)
	for len(s.take()) == 0 { // the connection is made anew within seconds
		tell()
		time.Sleep(pace)
	}
	log.expect(t, "traces are sent again")
	tell()
	close(records)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if got := s.take(); len(got) == 0 {
		t.Error("what was open at the end was not sent")
	}
	if len(log) > 0 {
		t.Errorf("also logged: %s", <-log)
	}
}

func TestCheckEndpoint(t *testing.T) {
	for _, good := range []string{"http://127.0.0.1:4317", "https://collector.example:443", "http://[fd00::1]:4317"} {
		if err := CheckEndpoint(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:4317", "collector:4317", "http://collector", "grpc://c:4317", "http://:4317", "http://c:0",
		"http://c:4317/v1/traces", "http://c:4317/", "http://u:p@c:4317", "http://c:4317?x", "http://c:4317#x", "http://c:port", "http://%zz:1"} {
		if err := CheckEndpoint(bad); err == nil || !strings.Contains(err.Error(), "want http://HOST:PORT") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A real scheduler: what it did is sent at its end.
func TestScheduler(t *testing.T) {
	sink := listen(t, "127.0.0.1:0")
	tracer, err := New(Options{Endpoint: "http://" + sink.address, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := scheduler.New(scheduler.Options{})
	_, err = scheduler.Register(s, scheduler.Descriptor[string, struct{}]{Name: "a", Prefix: "a/",
		Create: func(context.Context, scheduler.Key, string) (v struct{}, err error) { return v, nil },
		Delete: func(context.Context, scheduler.Key, string, struct{}) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran, sent := make(chan error, 1), make(chan error, 1)
	follower := s.Follow()
	go func() { ran <- s.Run(ctx) }()
	go func() { sent <- tracer.Run(context.Background(), follower) }()
	written := time.Now().Add(-time.Second)
	if _, err := s.Apply(ctx, scheduler.Txn{Note: "put", Written: written, Want: []scheduler.Change{scheduler.Set("a/1", "secret")}}); err != nil {
		t.Fatal(err)
	}
	cancel()
	for _, end := range []chan error{ran, sent} {
		if err := <-end; err != nil {
			t.Fatal(err)
		}
	}
	got := sink.take()
	if len(got) != 1 || strings.Contains(got[0].String(), "secret") {
		t.Fatalf("%v", got)
	}
	var names []string
	for _, span := range got[0].ResourceSpans[0].ScopeSpans[0].Spans {
		if span.StartTimeUnixNano > span.EndTimeUnixNano {
			t.Errorf("%s ended before it began", span.Name)
		}
		names = append(names, span.Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"create a", "store", "transaction"}) {
		t.Errorf("spans %q", names)
	}
}
