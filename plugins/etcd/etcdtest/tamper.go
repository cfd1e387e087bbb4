package etcdtest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// StartTamper starts a server that passes everything on to the one at an address, but for
// the answers of watches: of those it sends what change makes of each. change is called in
// the order of answers of one watch, and from several goroutines if there are several. It
// returns the endpoint for clients, and ends with the test.
func StartTamper(t testing.TB, to string, change func(*etcdserverpb.WatchResponse) []*etcdserverpb.WatchResponse) (url string) {
	t.Helper()
	conn, err := grpc.NewClient(to, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(asItIs{}), grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.ForceServerCodec(asItIs{}), grpc.MaxRecvMsgSize(1<<30),
		grpc.UnknownServiceHandler(func(_ any, down grpc.ServerStream) error { return passOn(conn, down, change) }))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-done
		conn.Close()
	})
	return "http://" + l.Addr().String()
}

// passOn is one call.
func passOn(conn *grpc.ClientConn, down grpc.ServerStream, change func(*etcdserverpb.WatchResponse) []*etcdserverpb.WatchResponse) error {
	method, _ := grpc.MethodFromServerStream(down)
	ctx := down.Context()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	up, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	go func() { // ends with the call
		for {
			var message []byte
			if err := down.RecvMsg(&message); err != nil {
				_ = up.CloseSend()
				return
			}
			if up.SendMsg(&message) != nil {
				return
			}
		}
	}()
	for {
		var message []byte
		if err := up.RecvMsg(&message); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		messages := [][]byte{message}
		if strings.HasSuffix(method, "/Watch") {
			r := new(etcdserverpb.WatchResponse)
			if err := proto.Unmarshal(message, r); err != nil {
				return err
			}
			messages = nil
			for _, r := range change(r) {
				message, err := proto.Marshal(r)
				if err != nil {
					return err
				}
				messages = append(messages, message)
			}
		}
		for _, m := range messages {
			if err := down.SendMsg(&m); err != nil {
				return err
			}
		}
	}
}

// asItIs leaves messages as they come.
type asItIs struct{}

func (asItIs) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (asItIs) Unmarshal(data []byte, v any) error { *v.(*[]byte) = data; return nil }
func (asItIs) Name() string                       { return "proto" }
