package trace

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/plumb-net/plumb/plugins/safetext"
	"github.com/plumb-net/plumb/scheduler"
)

const (
	// quietTime is after how long without news a transaction is sent.
	quietTime = 2 * time.Second
	// maxSteps is how many steps are kept of transactions that are not sent yet.
	maxSteps = 10_000
	// maxRoots is of how many transactions it is known in which trace they were sent.
	maxRoots = 1024
)

// transactions makes spans of records. A record may come in parts: its transaction is
// open until nothing more has come of it for a while.
type transactions struct {
	tracer trace.Tracer
	ended  *spans
	open   map[uint64]*transaction
	steps  int // of all that are open
	// roots are the traces of the last transactions, each at its number modulo maxRoots.
	roots [maxRoots]root
}

// transaction is what has come of one since it was sent last.
type transaction struct {
	record scheduler.Record
	heard  time.Time // when the last of it came
}

type root struct {
	seq  uint64
	span trace.SpanContext
}

func newTransactions(about *resource.Resource) *transactions {
	ended := &spans{}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(ended))
	return &transactions{tracer: provider.Tracer("github.com/plumb-net/plumb/plugins/trace"), ended: ended, open: map[uint64]*transaction{}}
}

func (t *transactions) empty() bool { return len(t.open) == 0 }

// add takes a part of a record in.
func (t *transactions) add(r scheduler.Record, now time.Time) {
	steps := slices.DeleteFunc(slices.Clone(r.Done), func(d scheduler.DoneStep) bool {
		return d.Op == scheduler.OpLook && d.Error == ""
	})
	known := t.open[r.Seq]
	if known == nil && len(steps) == 0 {
		return
	}
	if known != nil {
		steps = append(known.record.Done, steps...)
		t.steps -= len(known.record.Done)
	}
	r.Done, r.Asked, r.Planned, r.Changed = steps, nil, nil, nil
	t.open[r.Seq] = &transaction{record: r, heard: now}
	t.steps += len(steps)
}

// quiet ends the transactions of which nothing has come for a while, and all if they
// have become too large, and returns their spans.
func (t *transactions) quiet(now time.Time) []sdktrace.ReadOnlySpan {
	tooMany := t.steps > maxSteps
	return t.end(func(tx *transaction) bool { return tooMany || now.Sub(tx.heard) >= quietTime })
}

// all ends all transactions.
func (t *transactions) all() []sdktrace.ReadOnlySpan {
	return t.end(func(*transaction) bool { return true })
}

func (t *transactions) end(which func(*transaction) bool) []sdktrace.ReadOnlySpan {
	for _, seq := range slices.Sorted(maps.Keys(t.open)) {
		if tx := t.open[seq]; which(tx) {
			delete(t.open, seq)
			t.steps -= len(tx.record.Done)
			t.span(tx.record)
		}
	}
	return t.ended.take()
}

// span makes the spans of a record, or of more of one.
func (t *transactions) span(r scheduler.Record) {
	first := &t.roots[r.Seq%maxRoots]
	from, until := extent(r)
	failed := failures(r.Done)
	about := []attribute.KeyValue{attribute.Int64("seq", int64(r.Seq)), text("source", r.Source),
		attribute.Int("keys", r.AskedTotal), attribute.Int("errors", failed)}
	if r.Note != "" {
		about = append(about, text("note", r.Note))
	}
	if r.Dropped > 0 {
		about = append(about, attribute.Int("dropped", r.Dropped))
	}
	options := []trace.SpanStartOption{trace.WithNewRoot()}
	again := first.seq == r.Seq
	if again {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: first.span}))
	} else {
		from = r.Time
		if written(r) {
			from = r.Written
		}
	}
	options = append(options, trace.WithTimestamp(from), trace.WithAttributes(about...))
	ctx, span := t.tracer.Start(context.Background(), strings.TrimSpace("transaction "+r.Source), options...)
	if !again {
		*first = root{r.Seq, span.SpanContext()}
		if written(r) {
			_, store := t.tracer.Start(ctx, "store", trace.WithTimestamp(from))
			store.End(trace.WithTimestamp(r.Time))
		}
	}
	for _, d := range r.Done {
		t.step(ctx, d)
	}
	if failed > 0 {
		span.SetStatus(codes.Error, "")
	}
	span.End(trace.WithTimestamp(until))
}

// step makes the span of an operation.
func (t *transactions) step(ctx context.Context, d scheduler.DoneStep) {
	kind, _, _ := strings.Cut(string(d.Key), "/")
	about := []attribute.KeyValue{text("key", string(d.Key)), attribute.Float64("waited", d.Waited.Seconds())}
	if d.Via != "" {
		about = append(about, text("via", string(d.Via)))
	}
	if d.Error != "" {
		about = append(about, text("error", d.Error))
	}
	_, span := t.tracer.Start(ctx, d.Op.String()+" "+kind, trace.WithTimestamp(d.Start), trace.WithAttributes(about...))
	if failed(d) {
		span.SetStatus(codes.Error, short(d.Error))
	}
	span.End(trace.WithTimestamp(d.Start.Add(d.Took)))
}

func text(name, value string) attribute.KeyValue { return attribute.String(name, short(value)) }

// short is what is sent of a text, without passwords in addresses, as in the log. A text
// that is not UTF-8 would cost the whole request.
func short(s string) string {
	s = safetext.URLs(s)
	return strings.ToValidUTF8(s[:min(len(s), maxText)], "")
}

// written reports whether it is known when the transaction was written. The clock of
// who wrote it may be ahead of ours.
func written(r scheduler.Record) bool { return !r.Written.IsZero() && r.Written.Before(r.Time) }

func failed(d scheduler.DoneStep) bool { return d.Error != "" && !d.Lapsed }

func failures(steps []scheduler.DoneStep) (n int) {
	for _, d := range steps {
		if failed(d) {
			n++
		}
	}
	return n
}

// extent is from when until when steps were done.
func extent(r scheduler.Record) (from, until time.Time) {
	first := slices.MinFunc(r.Done, func(a, b scheduler.DoneStep) int {
		return cmp.Compare(a.Start.Add(-a.Waited).UnixNano(), b.Start.Add(-b.Waited).UnixNano())
	})
	until = r.Settled
	for _, d := range r.Done {
		if end := d.Start.Add(d.Took); end.After(until) {
			until = end
		}
	}
	return first.Start.Add(-first.Waited), until
}

// spans collects spans that have ended.
type spans struct{ list []sdktrace.ReadOnlySpan }

// take returns what was collected.
func (s *spans) take() []sdktrace.ReadOnlySpan {
	list := s.list
	s.list = nil
	return list
}

// The rest makes it a [sdktrace.SpanProcessor].

// OnStart does nothing.
func (s *spans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

// OnEnd collects a span.
func (s *spans) OnEnd(span sdktrace.ReadOnlySpan) { s.list = append(s.list, span) }

// Shutdown does nothing.
func (s *spans) Shutdown(context.Context) error { return nil }

// ForceFlush does nothing.
func (s *spans) ForceFlush(context.Context) error { return nil }
