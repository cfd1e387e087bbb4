package kubernetes_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/scheduler"
)

// wanted keeps the keys that a source wants.
type wanted struct {
	mu   sync.Mutex
	keys map[scheduler.Key]bool
	gone []scheduler.Key // all that was ever withdrawn
}

func (w *wanted) Submit(txn scheduler.Txn) *scheduler.Handle {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.keys == nil || txn.Complete {
		w.keys = map[scheduler.Key]bool{}
	}
	for _, c := range txn.Want {
		if w.keys[c.Key] = c.Value != nil; c.Value == nil && c.Invalid == nil {
			delete(w.keys, c.Key)
			w.gone = append(w.gone, c.Key)
		}
	}
	return nil
}

// all returns all that was ever withdrawn.
func (w *wanted) all() []scheduler.Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.gone)
}

func (w *wanted) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprint(slices.Sorted(maps.Keys(w.keys)))
}

// cluster is an API server, a source behind a proxy, and what the source wants.
type cluster struct {
	*kubetest.Server
	t          *testing.T
	api        *kubetest.Client
	proxy      *etcdtest.Proxy
	kubeconfig string // of the node n0, through the proxy
	source     *kubernetes.Source
	wanted     *wanted
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	s := kubetest.Start(t)
	c := &cluster{Server: s, t: t, api: s.Client(kubetest.Admin), proxy: etcdtest.StartProxy(t, s.Addr()), wanted: &wanted{}}
	c.kubeconfig = s.Kubeconfig(kubetest.Node("n0"), strings.TrimPrefix(c.proxy.URL(), "http://"))
	return c
}

// follow runs a source with a kubeconfig.
func (c *cluster) follow(kubeconfig string, silence time.Duration) {
	c.t.Helper()
	c.source = kubernetes.New(c.wanted, kubernetes.Options{Kubeconfig: kubeconfig, Node: "n0", Decode: models.Decode,
		Attached: func(string) bool { return false }, Silence: silence})
	run(c.t, c.source)
}

// pod creates a pod that wants one interface.
func (c *cluster) pod(name string) {
	c.t.Helper()
	c.api.Create(kubetest.Pod{Namespace: "default", Name: name, Node: "n0", Annotations: map[string]string{kubernetes.IntentAnnotation: "interface/a: {dummy: {}}"}})
}

// is waits until the health of the source has a state and a word of the reason, and until exactly the interfaces of these
// pods are wanted.
func (c *cluster) is(state, word string, pods ...string) {
	c.t.Helper()
	var keys []scheduler.Key
	for _, name := range pods {
		keys = append(keys, scheduler.Key("interface/pod.default."+name+".a"))
	}
	want := fmt.Sprint(keys)
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		h := c.source.Health()
		if h.State == state && strings.Contains(h.Reason, word) && c.wanted.text() == want {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("the source is %s (%s) and wants %s, want %s (%s) and %s", h.State, h.Reason, c.wanted.text(), state, word, want)
		}
	}
}

// TestCredentials: the kubeconfig comes late, the token in it is wrong and becomes right, and so does the certificate of the
// server. What is wanted stays meanwhile.
func TestCredentials(t *testing.T) {
	c := newCluster(t)
	c.pod("web")
	late := filepath.Join(t.TempDir(), "kubeconfig")
	c.follow(late, 0)
	c.is("down", "the kubeconfig cannot be read")

	text, err := os.ReadFile(c.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.Split(strings.SplitAfter(string(text), `tokenFile: "`)[1], `"`)[0]
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "wrong")
	write(late, string(text))
	c.is("down", "Unauthorized")
	write(token, kubetest.Node("n0"))
	c.is("ok", "", "web")

	write(token, "wrong")
	c.proxy.Break()
	c.is("down", "Unauthorized", "web")
	c.pod("db")
	write(token, kubetest.Node("n0"))
	c.is("ok", "", "db", "web")

	c.Stop()
	c.Renew()
	c.is("down", "", "db", "web")
	c.Start()
	c.api = c.Client(kubetest.Admin)
	c.is("ok", "", "db", "web")
	if len(c.wanted.gone) > 0 {
		t.Errorf("withdrawn were %v", c.wanted.gone)
	}
}

// TestServerGoesOn: the API server and its etcd are killed and come back, with a compaction that forgets what the source
// knew, and a connection that brings nothing without being closed.
func TestServerGoesOn(t *testing.T) {
	c := newCluster(t)
	c.pod("web")
	c.pod("db")
	c.follow(c.kubeconfig, 3*time.Second)
	c.is("ok", "", "db", "web")

	c.Stop()
	c.is("down", "", "db", "web")
	c.Etcd.Stop()
	c.Etcd.Start()
	c.Start()
	c.is("ok", "", "db", "web")

	// The pod is deleted and the history is compacted while nobody can tell the source.
	c.proxy.Cut()
	c.api.Remove("default", "db")
	c.pod("new")
	c.Etcd.Compact()
	c.Stop()
	c.Start()
	c.is("down", "", "db", "web")
	c.proxy.Mend()
	c.is("ok", "", "new", "web")

	c.proxy.Freeze()
	c.api.Remove("default", "new")
	c.is("down", "", "new", "web")
	c.proxy.Thaw()
	c.is("ok", "", "web")
}
