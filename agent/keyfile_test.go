package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// keyBench is an agent on a kernel in memory, and a directory for keys.
type keyBench struct {
	*testing.T
	k      *kerneltest.Kernel
	etcd   *clientv3.Client
	dir    string
	config Config
}

func newKeyBench(t *testing.T) (b *keyBench, stop func()) {
	b = &keyBench{T: t, k: kerneltest.New(kerneltest.Options{}), config: onMemory(t, "host7"), dir: t.TempDir()}
	b.config.Policy = append(b.config.Policy, "* key="+b.dir+"/*")
	stop = runOn(t, b.config, b.k)
	var err error
	b.etcd, err = clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(b.config.RunDir, "etcd.sock")}, Logger: zap.NewNop()})
	b.do(err)
	t.Cleanup(func() { b.etcd.Close() })
	return b, stop
}

func (b *keyBench) do(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *keyBench) put(key, value string) {
	b.Helper()
	_, err := b.etcd.Put(b.Context(), "/plumb/host7/config/"+key, value)
	b.do(err)
}

func (b *keyBench) file(name string) string { return filepath.Join(b.dir, name) }

// write writes a file that holds a key of this byte.
func (b *keyBench) write(name string, of byte) {
	b.Helper()
	var key models.WireGuardKey
	for i := range key {
		key[i] = of
	}
	b.do(os.WriteFile(b.file(name), []byte(key.String()), 0o600))
}

// sees waits until the status of a key contains the text.
func (b *keyBench) sees(key, text string) {
	b.Helper()
	var last string
	defer func() {
		if b.Failed() {
			b.Logf("%s is %s", key, last)
		}
	}()
	netlinktest.Eventually(b.T, key+" "+text, func() bool {
		r, err := b.etcd.Get(context.Background(), "/plumb/host7/status/"+key)
		if err != nil || len(r.Kvs) == 0 {
			return false
		}
		var s struct {
			State, Reason string
			Missing       []struct{ Need, Why string }
		}
		b.do(json.Unmarshal(r.Kvs[0].Value, &s))
		last = fmt.Sprint(s)
		return strings.Contains(last, text)
	})
}

func (b *keyBench) index(name string) int {
	l, _ := b.k.Link(b.k.Own(), name)
	return l.Index
}

// TestInterfaceStaysWithoutNewKeyFile: an interface that exists stays when its value names another
// file that does not exist yet, as its own key or that of a peer.
func TestInterfaceStaysWithoutNewKeyFile(t *testing.T) {
	b, _ := newKeyBench(t)
	b.write("a", 1)
	value := `{"wireguard":{"private_key_file":%q}}`
	b.put("interface/wg0", fmt.Sprintf(value, b.file("a")))
	b.sees("interface/wg0", "configured")
	was := b.index("wg0")
	peer := `{"wireguard":{"private_key_file":%q,"peers":[{"public_key":"xTIBA5rboUvnH4htodjb6e697QjLERt1NAB4mZqp8Dg=","preshared_key_file":%q}]}}`
	for missing, value := range map[string]string{"b": fmt.Sprintf(value, b.file("b")), "c": fmt.Sprintf(peer, b.file("a"), b.file("c"))} {
		b.put("interface/wg0", value)
		b.sees("interface/wg0", "open "+b.file(missing)+": no such file or directory")
		b.write(missing, 2)
		b.sees("interface/wg0", "configured")
		if b.index("wg0") != was {
			t.Errorf("wg0 has the index %d, and had %d", b.index("wg0"), was)
		}
	}
}

// TestUnreadableKeyFileKeepsNoLeftovers: what an earlier run made and nobody wants goes, although a key
// file cannot be read.
func TestUnreadableKeyFileKeepsNoLeftovers(t *testing.T) {
	b, stop := newKeyBench(t)
	b.write("a", 1)
	b.put("interface/wg0", fmt.Sprintf(`{"wireguard":{"private_key_file":%q}}`, b.file("a")))
	b.put("interface/old", `{"dummy":{}}`)
	b.sees("interface/old", "configured")
	b.sees("interface/wg0", "configured")
	stop()
	b.do(os.WriteFile(b.file("a"), []byte("no key"), 0o600))
	runOn(t, b.config, b.k)
	_, err := b.etcd.Delete(b.Context(), "/plumb/host7/config/interface/old")
	b.do(err)
	netlinktest.Eventually(t, "old has gone", func() bool { return b.index("old") == 0 })
}
