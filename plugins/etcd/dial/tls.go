package dial

import (
	"context"
	"errors"
	"net"
	"os"

	"google.golang.org/grpc/credentials"

	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// OpenTLS reads the files of TLS; nil without any: https:// then trusts the system's roots.
func OpenTLS(c Config) (*tlsfiles.Source, error) {
	if !c.TLS() {
		return nil, nil
	}
	return tlsfiles.Open(tlsfiles.Files{Cert: c.CertFile, Key: c.KeyFile, CA: c.CAFile},
		tlsfiles.Options{Whose: "etcd", Read: os.ReadFile, ReadKey: os.ReadFile, Every: c.RereadEvery, Log: c.withDefaults().Log})
}

// handshakes are TLS with what the files hold when the handshake is made. A configuration
// of crypto/tls could follow the certificate, but not the authorities.
type handshakes struct{ files *tlsfiles.Source }

func (h handshakes) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(h.files.Client()).ClientHandshake(ctx, authority, conn)
}

func (handshakes) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("etcd: this is a client")
}

func (handshakes) Info() credentials.ProtocolInfo {
	return credentials.NewTLS(nil).Info()
}

func (h handshakes) Clone() credentials.TransportCredentials { return h }

func (handshakes) OverrideServerName(string) error {
	return errors.New("etcd: the server's name is that of its endpoint")
}
