package trace

import (
	"context"
	"net"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
)

// sink is a collector of traces that keeps the requests.
type sink struct {
	collector.UnimplementedTraceServiceServer
	address string
	mu      sync.Mutex // guards what follows
	got     []*collector.ExportTraceServiceRequest
}

// listen starts a collector at an address, for the time of the test.
func listen(t *testing.T, address string) *sink {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s, server := &sink{address: l.Addr().String()}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go server.Serve(l)
	t.Cleanup(server.Stop)
	return s
}

// Export implements the service.
func (s *sink) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got = append(s.got, r)
	return &collector.ExportTraceServiceResponse{}, nil
}

// take returns the requests that have come.
func (s *sink) take() []*collector.ExportTraceServiceRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := s.got
	s.got = nil
	return got
}
