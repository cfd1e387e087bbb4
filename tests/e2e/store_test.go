package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/etcd/etcdtest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

// shop is a host without containers: what these stories change is the store.
type shop struct {
	*host.Host
	t     *testing.T
	store *store
}

var goods = intent{
	"interface/br0":  `{"bridge":{},"mac_address":"02:00:00:00:00:fe","addresses":["10.40.0.254/24"]}`,
	"interface/a":    `{"veth":{"peer":"b"},"mac_address":"02:00:00:00:00:0a","master":"br0"}`,
	"interface/b":    `{"veth":{"peer":"a"},"mac_address":"02:00:00:00:00:0b"}`,
	"interface/tap0": `{"tap":{},"mac_address":"02:00:00:00:00:01"}`,
	"route/lan":      `{"interface":"br0","destination":"10.41.0.0/16","gateway":"10.40.0.1"}`,
}

// openShop starts an agent, with an external etcd if there is a URL, and waits
// until its goods are there.
func openShop(t *testing.T, url string) *shop {
	t.Helper()
	s := &shop{Host: host.New(t, host.Options{NoEngine: true, Fast: true, Etcd: url}), t: t}
	s.store = operator(t, s.Host)
	s.Start()
	s.store.commit(goods.ops(s.store)...)
	awaitIntent(s.Host, goods)
	return s
}

// stays sees for a while that the kernel stays as it is.
func (s *shop) stays(as string, d time.Duration) {
	s.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); <-time.After(100 * time.Millisecond) {
		if err := same(as, s.Exact()); err != nil {
			s.t.Fatal(err)
		}
	}
}

// says waits until `agentctl status` says it.
func (s *shop) says(words string) {
	s.t.Helper()
	s.Eventually("status says "+words, func() error {
		if r := s.Ctl("status"); !strings.Contains(r.Out, words) {
			return errors.New("it says\n" + r.Out + r.Err)
		}
		return nil
	})
}

func (s *shop) gone(links ...string) {
	s.t.Helper()
	s.Eventually(fmt.Sprint(links, " gone"), func() error {
		for _, l := range links {
			if s.Own.Show(s.t, l) != nil {
				return errors.New(l + " is there")
			}
		}
		return nil
	})
}

// The agent starts while etcd is down: it touches nothing and says so. Then
// etcd comes, and the agent does what was written since.
func TestEtcdDownAtStart(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	s := openShop(t, e.URL())
	before := quiet(s.Host, s.Exact)
	s.Stop()
	s.store.delete("interface/tap0")
	e.Stop()
	s.Launch()
	s.says("connection refused")
	s.stays(before, time.Second)
	if n := s.KernelWrites(); n != 0 {
		t.Errorf("without etcd the agent wrote %d times to the kernel", n)
	}
	e.Start()
	s.gone("tap0")
	s.store.put("interface/tap1", `{"tap":{}}`)
	s.AwaitConfigured("interface/tap1", "interface/a", "route/lan")
}

// etcd is down for ten seconds: nothing is touched, what others break is still
// repaired, and afterwards everything goes on.
func TestEtcdDownForAWhile(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	s := openShop(t, e.URL())
	before := quiet(s.Host, s.Exact)
	e.Stop()
	s.stays(before, 9*time.Second)
	s.says("cannot be read")
	s.Own.IP(t, "route delete 10.41.0.0/16")
	s.Eventually("the route is repaired", func() error { return same(before, s.Exact()) })
	e.Start()
	s.store.commit(s.store.op("interface/tap1", `{"tap":{}}`), clientv3.OpDelete(s.store.prefix+"interface/tap0"))
	s.AwaitConfigured("interface/tap1", "interface/a", "route/lan")
	s.gone("tap0")
}

// The way to etcd is cut, and etcd is compacted beyond what the watch has seen.
// What was changed and deleted in between arrives all the same.
func TestCompactedWhileCut(t *testing.T) {
	t.Parallel()
	e := etcdtest.Start(t)
	p := etcdtest.StartProxy(t, e.Addr())
	s := openShop(t, p.URL())
	s.Etcd = e.URL() // the operator has another way
	s.store = operator(t, s.Host)
	p.Cut()
	s.says("cannot be read")
	s.store.delete("route/lan")
	s.store.put("interface/b", `{"veth":{"peer":"a"},"mtu":1400}`)
	s.store.delete("interface/tap0")
	last := s.store.put("interface/tap1", `{"tap":{}}`)
	if _, err := s.store.Compact(context.Background(), last); err != nil {
		t.Fatal(err)
	}
	p.Mend()
	s.AwaitConfigured("interface/tap1", "interface/a", "interface/b")
	s.gone("tap0")
	s.Eventually("b is changed and the route is gone", func() error {
		if mtu := s.Own.Show(t, "b")["mtu"]; mtu != 1400.0 {
			return fmt.Errorf("the MTU is %v", mtu)
		}
		if left := s.Own.IP(t, "route show 10.41.0.0/16"); left != "" {
			return errors.New(left)
		}
		return nil
	})
}

// What is deleted on purpose goes, one key and also all of them.
func TestDeletedOnPurpose(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"embedded": func(*testing.T) string { return "" },
		"external": func(t *testing.T) string { return etcdtest.Start(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openShop(t, url(t))
			s.store.delete("interface/tap0")
			s.gone("tap0")
			s.AwaitConfigured("interface/a", "route/lan")
			s.store.deleteAll()
			s.gone("br0", "a", "b")
			awaitGone(t, s.Host, goods)
			s.AwaitNoDifference()
		})
	}
}

// The store is replaced, by an empty one or by an older state of itself, while
// the agent runs or while it does not. That is unknown, not empty.
func TestStoreReplaced(t *testing.T) {
	t.Parallel()
	replaced := map[string]struct {
		replace func(e *etcdtest.Server, s *shop) (back func())
		says    string
	}{
		"empty": {func(e *etcdtest.Server, _ *shop) func() { return e.Wipe }, "another store or an emptied one"},
		"older": {func(e *etcdtest.Server, s *shop) func() {
			back := e.Keep()
			s.store.put("interface/late", `{"tap":{}}`)
			s.AwaitConfigured("interface/late")
			s.store.put("interface/late", `{"tap":{},"mtu":1400}`)
			s.Eventually("the agent has read the last revision", func() error {
				if l := s.Own.Show(s.t, "late"); l["mtu"] != 1400.0 {
					return fmt.Errorf("late is %v", l)
				}
				return nil
			})
			return back
		}, "an older state of the known store"},
	}
	for name, r := range replaced {
		for _, running := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/running", false: "/stopped"}[running], func(t *testing.T) {
				t.Parallel()
				e := etcdtest.Start(t)
				s := openShop(t, e.URL())
				replace := r.replace(e, s)
				before := quiet(s.Host, s.Exact)
				if !running {
					s.Stop()
				}
				replace()
				if !running {
					s.Launch()
				}
				s.says(r.says)
				s.stays(before, time.Second)

				s.store.put("interface/fresh", `{"tap":{}}`)
				s.AwaitConfigured("interface/fresh")
				s.store.put("interface/tap0", `{"tap":{},"mac_address":"02:00:00:00:00:01","addresses":["10.42.0.1/24"]}`)
				s.AwaitConfigured("interface/tap0")
				if err := same("", strings.Join(s.lacks("br0", "a", "b", "fresh", "tap0"), " ")); err != nil {
					t.Error(err)
				}

				s.MustCtl("resync", "--accept")
				s.says("ok")
				if name == "empty" {
					s.gone("br0", "a", "b")
				} else {
					s.gone("late")
				}
				s.AwaitConfigured("interface/fresh", "interface/tap0")
			})
		}
	}
}

// lacks are the links that are not there.
func (s *shop) lacks(links ...string) (missing []string) {
	s.t.Helper()
	for _, l := range links {
		if s.Own.Show(s.t, l) == nil {
			missing = append(missing, l)
		}
	}
	return missing
}

// record is what `agentctl history -o json` tells of a transaction.
type record struct {
	Seq    json.RawMessage
	Source string
	Note   string
	Asked  []string
	Total  int `json:"asked_total"`
}

// asked are the transactions that asked for routes.
func (s *shop) asked() (all []record) {
	s.t.Helper()
	var records []record
	if err := json.Unmarshal([]byte(s.MustCtl("history", "-o", "json")), &records); err != nil {
		s.t.Fatal(err)
	}
	for _, r := range records {
		if r.Total = max(r.Total, len(r.Asked)); r.Total > 0 && strings.HasPrefix(r.Asked[0], "route/r") {
			all = append(all, r)
		}
	}
	return all
}

func (s *store) route(i int) clientv3.Op {
	return s.op(fmt.Sprintf("route/r%d", i), fmt.Sprintf(`{"interface":"br0","destination":"10.43.%d.%d/32"}`, i/250, i%250))
}

// 1000 keys in one transaction of etcd are one transaction of the scheduler;
// two revisions are two, however close.
func TestOneRevisionOneTransaction(t *testing.T) {
	t.Parallel()
	s := openShop(t, "")
	var ops []clientv3.Op
	var keys []string
	for i := range 1000 {
		ops, keys = append(ops, s.store.route(i)), append(keys, fmt.Sprintf("route/r%d", i))
	}
	s.store.commit(ops...)
	s.AwaitConfigured(keys...)
	if all := s.asked(); len(all) != 1 || all[0].Total != 1000 {
		t.Fatalf("1000 keys became %v", all)
	}
	for try := 0; ; try++ {
		at, apart := s.adjacent(2000+2*try, 2001+2*try)
		if len(at) < 2 || apart > time.Millisecond {
			if try > 500 {
				t.Fatalf("two adjacent revisions within a millisecond do not happen here: %v", apart)
			}
			continue
		}
		s.AwaitConfigured(at...)
		all := s.asked()
		for i, r := range all[len(all)-2:] {
			if r.Total != 1 || r.Asked[0] != at[i] {
				t.Errorf("%s came as %v", at[i], r)
			}
		}
		return
	}
}

// adjacent writes two routes at once and returns their keys in the order of
// their revisions, if these are adjacent (statuses are written as well), and
// how far apart the answers came.
func (s *shop) adjacent(routes ...int) (keys []string, apart time.Duration) {
	s.t.Helper()
	type written struct {
		route    int
		revision int64
		at       time.Time
	}
	done := make(chan written, 2)
	for _, i := range routes {
		go func() { done <- written{i, s.store.commit(s.store.route(i)), time.Now()} }()
	}
	a, b := <-done, <-done
	if a.revision > b.revision {
		a, b = b, a
	}
	if b.revision != a.revision+1 {
		return nil, 0
	}
	return []string{fmt.Sprintf("route/r%d", a.route), fmt.Sprintf("route/r%d", b.route)}, b.at.Sub(a.at).Abs()
}
