package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/plumb-net/plumb/scheduler"
)

const (
	// pace is how often the history is read.
	pace = 200 * time.Millisecond
	// sendTime is how long the collector may take for a request, with further tries.
	sendTime = 5 * time.Second
	// lastTime is the same at the end of the agent.
	lastTime = time.Second
	// maxBatch is how many spans a request has.
	maxBatch = 512
	// maxText is how many bytes of a text are sent.
	maxText = 1024
)

// Options are where traces go, and who sends them.
type Options struct {
	Endpoint       string // see CheckEndpoint
	Label, Version string
	Log            *slog.Logger
}

// CheckEndpoint refuses what is not the address of a collector.
func CheckEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err == nil {
		port, bad := strconv.ParseUint(u.Port(), 10, 16)
		rest := *u
		rest.Scheme, rest.Host = "", ""
		if (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && bad == nil && port > 0 && rest == (url.URL{}) {
			return nil
		}
	}
	return errors.New("want http://HOST:PORT or https://HOST:PORT of a collector that takes OTLP by gRPC, such as http://127.0.0.1:4317")
}

// Source is the history to send; see [scheduler.Follower].
type Source interface {
	Next(ctx context.Context) ([]scheduler.Record, error)
}

// Tracer makes traces of a history and sends them.
type Tracer struct {
	log          *slog.Logger
	sendTime     time.Duration
	exporter     *otlptrace.Exporter
	transactions *transactions
	failing      bool // the collector did not take the last request
}

// New makes a tracer. It connects when there is something to send.
func New(o Options) (*Tracer, error) {
	if err := CheckEndpoint(o.Endpoint); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	about := resource.NewSchemaless(attribute.String("service.name", "plumb-agent"), attribute.String("service.version", o.Version),
		attribute.String("service.instance.id", o.Label), attribute.String("host.name", host))
	reconnect := grpc.ConnectParams{MinConnectTimeout: sendTime, Backoff: backoff.DefaultConfig}
	reconnect.Backoff.MaxDelay = 10 * time.Second
	client := otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(o.Endpoint), otlptracegrpc.WithTimeout(sendTime),
		otlptracegrpc.WithDialOption(grpc.WithConnectParams(reconnect)),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: 500 * time.Millisecond, MaxInterval: 2 * time.Second, MaxElapsedTime: sendTime}))
	return &Tracer{log: o.Log, sendTime: sendTime, exporter: otlptrace.NewUnstarted(client), transactions: newTransactions(about)}, nil
}

// Run sends what a source has until it ends or ctx does.
func (t *Tracer) Run(ctx context.Context, s Source) error {
	if err := t.exporter.Start(ctx); err != nil {
		return fmt.Errorf("traces: %w", err)
	}
	for {
		records, err := t.next(ctx, s)
		for _, r := range records {
			t.transactions.add(r, time.Now())
		}
		if errors.Is(err, scheduler.ErrStopped) || ctx.Err() != nil && len(records) == 0 {
			return t.close()
		}
		t.send(ctx, t.transactions.quiet(time.Now()))
		select {
		case <-ctx.Done():
		case <-time.After(pace):
		}
	}
}

// next waits for more, but only for so long while transactions are open.
func (t *Tracer) next(ctx context.Context, s Source) ([]scheduler.Record, error) {
	if t.transactions.empty() {
		return s.Next(ctx)
	}
	soon, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	return s.Next(soon)
}

// close sends what is open.
func (t *Tracer) close() error {
	last, cancel := context.WithTimeout(context.Background(), lastTime)
	defer cancel()
	t.send(last, t.transactions.all())
	_ = t.exporter.Shutdown(last) // what it lacks was told by send
	return nil
}

// send hands spans to the collector. What it does not take is dropped. That it takes
// none, and that it does again, is told once.
func (t *Tracer) send(ctx context.Context, spans []sdktrace.ReadOnlySpan) {
	for batch := range slices.Chunk(spans, maxBatch) {
		limited, cancel := context.WithTimeout(ctx, t.sendTime)
		err := t.exporter.ExportSpans(limited, batch)
		cancel()
		switch {
		case err != nil && !t.failing:
			t.log.Warn("traces cannot be sent, and are dropped", "error", err)
		case err == nil && t.failing:
			t.log.Info("traces are sent again")
		}
		if t.failing = err != nil; t.failing {
			return
		}
	}
}
