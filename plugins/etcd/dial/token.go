package dial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// tokens attaches the token of a user to all calls of a connection, and replaces it when
// etcd refuses it: it has expired, etcd has restarted, or users or roles have changed. A
// refused request was not carried out, so it is sent again. A stream is not: what etcd
// refuses within it is an answer, and the next stream or request gets a new token.
//
// The client library has a way of its own, which is not used: it asks for a new token with
// the old one attached, which etcd 3.4 refuses, whereupon it asks again, without end; and it
// asks for one for each stream, which costs etcd the check of a password.
type tokens struct {
	user, passwordFile string
	timeout            time.Duration // of an authentication

	mu    sync.Mutex // guards the fields below; held during an authentication
	known bool
	token string // "" if etcd does not authenticate
}

// attach adds the tokens to the calls of a client. The client library must not repeat a request
// whose new token is refused, too, which it does up to a hundred times.
func (t *tokens) attach(cfg *clientv3.Config) {
	cfg.MaxUnaryRetries = 1
	cfg.DialOptions = append(cfg.DialOptions, grpc.WithChainUnaryInterceptor(t.unary), grpc.WithChainStreamInterceptor(t.stream))
}

func (t *tokens) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == etcdserverpb.Auth_Authenticate_FullMethodName {
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	for again := false; ; again = true {
		token, err := t.get(ctx, conn)
		if err != nil {
			return err
		}
		err = invoke(with(ctx, token), method, req, reply, conn, opts...)
		if !Refused(err) {
			return err
		}
		t.forget(token)
		if again {
			return err
		}
	}
}

func (t *tokens) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	token, err := t.get(ctx, conn)
	if err != nil {
		return nil, err
	}
	s, err := open(with(ctx, token), desc, conn, method, opts...)
	if err != nil {
		return nil, err
	}
	return &tokenStream{s, t, token}, nil
}

// tokenStream is a stream that was opened with a token.
type tokenStream struct {
	grpc.ClientStream
	tokens *tokens
	token  string
}

func (s *tokenStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if Refused(err) {
		s.tokens.forget(s.token)
	}
	return err
}

func with(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, rpctypes.TokenFieldNameGRPC, token)
}

// Refused reports whether etcd refused a call for its token, or for the lack of one.
func Refused(err error) bool {
	return slices.Contains([]error{rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision, rpctypes.ErrUserEmpty}, rpctypes.Error(err))
}

// get returns the token, and asks for one if none is known.
func (t *tokens) get(ctx context.Context, conn grpc.ClientConnInterface) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known {
		return t.token, nil
	}
	password, err := readPassword(t.passwordFile)
	if err != nil {
		return "", fmt.Errorf("etcd password: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	resp, err := etcdserverpb.NewAuthClient(conn).Authenticate(ctx, &etcdserverpb.AuthenticateRequest{
		Name: t.user, Password: strings.TrimRight(string(password), "\r\n")})
	if err != nil && !errors.Is(rpctypes.Error(err), rpctypes.ErrAuthNotEnabled) {
		return "", err
	}
	t.token, t.known = resp.GetToken(), true
	return t.token, nil
}

// forget discards a refused token, unless another call has replaced it already.
func (t *tokens) forget(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token == token {
		t.known = false
	}
}
