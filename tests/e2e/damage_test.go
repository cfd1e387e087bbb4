package e2e

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

var (
	damageCount = flag.Int("damages", 6, "how many random damages TestDamagedStore does to the embedded etcd")
	damageSeed  = flag.Uint64("damage-seed", 0, "seed of TestDamagedStore; 0 for a new one")
)

// damage is something that happens to a file.
type damage struct {
	name string
	do   func(r *rand.Rand, path string) error
}

var someDamages = []damage{
	{"a bit flipped", func(r *rand.Rand, path string) error {
		return changed(path, func(b []byte) []byte {
			b[somewhere(r, b)] ^= 1 << r.IntN(8)
			return b
		})
	}},
	{"a page of noise", func(r *rand.Rand, path string) error {
		return changed(path, func(b []byte) []byte {
			at := somewhere(r, b) &^ 4095
			for i := at; i < min(at+4096, len(b)); i++ {
				b[i] = byte(r.Uint32())
			}
			return b
		})
	}},
	{"a page of zeros", func(r *rand.Rand, path string) error {
		return changed(path, func(b []byte) []byte {
			at := somewhere(r, b) &^ 4095
			clear(b[at:min(at+4096, len(b))])
			return b
		})
	}},
	{"cut", func(r *rand.Rand, path string) error {
		return changed(path, func(b []byte) []byte { return b[:somewhere(r, b)] })
	}},
	{"emptied", func(_ *rand.Rand, path string) error { return os.Truncate(path, 0) }},
	{"removed", func(_ *rand.Rand, path string) error { return os.Remove(path) }},
}

// somewhere is a place that holds something: files are filled up with zeros.
func somewhere(r *rand.Rand, b []byte) int {
	at := 0
	for range 1000 {
		if at = r.IntN(len(b)); b[at] != 0 {
			return at
		}
	}
	return at
}

func changed(path string, change func([]byte) []byte) error {
	b, err := os.ReadFile(path)
	if err != nil || len(b) == 0 {
		return err
	}
	return os.WriteFile(path, change(b), 0o600)
}

// filesBelow are the files of a directory, by their names in it.
func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			name, _ := filepath.Rel(dir, path)
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestDamagedStore: whatever happens to the data of the embedded etcd, the agent
// lives, what stands stays, and containers are attached. Either the store works,
// or it is said why it does not, and one command leads out.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	d := newDamaged(t)
	seed := *damageSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./tests/e2e -run TestDamagedStore -damages %d -damage-seed %d", *damageCount, seed)
	r := rand.New(rand.NewPCG(seed, 0))
	files := filesBelow(t, filepath.Join(d.kept, "state", "etcd", "member"))
	t.Logf("the data: %s", strings.Join(files, " "))
	db := files[slices.IndexFunc(files, func(f string) bool { return filepath.Base(f) == "db" })]
	for _, s := range someDamages[1:5] { // of the file with the keys, each
		d.suffer(r, db, s)
	}
	for range *damageCount {
		d.suffer(r, files[r.IntN(len(files))], someDamages[r.IntN(len(someDamages))])
	}
	t.Logf("%d damages: %v", 4+*damageCount, d.outcomes)
}

// damaged is a host whose store is damaged again and again.
type damaged struct {
	*shop
	kept     string // a copy of the state directory, and of the run directory with the witnesses of the ledgers
	before   string // the kernel, with all that was wanted and one that is attached
	outcomes map[string]int
}

// newDamaged makes a host whose store has history: snapshots, several logs.
func newDamaged(t *testing.T) *damaged {
	d := &damaged{shop: &shop{Host: host.New(t, host.Options{Parallel: true, NoEngine: true, Fast: true}), t: t}, outcomes: map[string]int{}}
	d.Mount("c1")
	d.Mount("c2")
	d.Start()
	d.store = operator(t, d.Host)
	d.store.commit(goods.ops(d.store)...)
	awaitIntent(d.Host, goods)
	add(t, d.Host, "c1", blue)
	d.fill(10_500) // a snapshot comes with every 10,000
	d.before = quiet(d.Host, d.Exact)
	d.Stop()
	d.kept = filepath.Join(d.Dir, "kept")
	if err := os.Mkdir(d.kept, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"state", "run"} {
		d.copyDir(filepath.Join(d.Dir, name), filepath.Join(d.kept, name))
	}
	return d
}

// fill writes keys that mean nothing to the agent.
func (d *damaged) fill(n int) {
	const each = 50
	done := make(chan error, each)
	for w := range each {
		go func() {
			var err error
			for i := w; i < n && err == nil; i += each {
				_, err = d.store.Put(d.t.Context(), fmt.Sprint("/other/", i%300), strings.Repeat("x", i%900))
			}
			done <- err
		}()
	}
	for range each {
		if err := <-done; err != nil {
			d.t.Fatal(err)
		}
	}
}

func (d *damaged) copyDir(from, to string) {
	d.t.Helper()
	if err := os.RemoveAll(to); err != nil {
		d.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		d.t.Fatalf("%v\n%s", err, out)
	}
}

// suffer damages a file while the agent is away, and sees how it copes.
func (d *damaged) suffer(r *rand.Rand, file string, with damage) {
	d.t.Helper()
	for _, name := range []string{"state", "run"} {
		d.copyDir(filepath.Join(d.kept, name), filepath.Join(d.Dir, name))
	}
	if err := with.do(r, filepath.Join(d.StateDir(), "etcd", "member", file)); err != nil {
		d.t.Fatal(err)
	}
	d.t.Logf("%s: %s", file, with.name)
	d.Launch()
	ready, reason := d.judged()
	d.works()
	if ready {
		d.outcomes["ready"]++
	} else {
		d.outcomes["not ready"]++
		d.t.Logf("  it says %s", reason)
		d.recover(reason)
	}
	if !d.Running() {
		d.t.Fatalf("the agent has ended:\n%s", d.Log())
	}
	d.Stop()
}

// judged waits until the agent is ready, or says why not and what to do.
func (d *damaged) judged() (ready bool, reason string) {
	d.t.Helper()
	d.Eventually("the agent is ready or says the way out", func() error {
		if !d.Running() {
			d.t.Fatalf("the agent has ended:\n%s", d.Log())
		}
		page, err := d.HTTP("/readyz")
		if err == nil {
			ready = true
			return nil
		}
		reason = page + err.Error()
		if strings.Contains(reason, "recover-store") || strings.Contains(reason, "resync --accept") {
			return nil
		}
		return err
	})
	return ready, reason
}

// works sees that what stands stays, and that containers come and go.
func (d *damaged) works() {
	d.t.Helper()
	if err := same(d.before, quiet(d.Host, d.Exact)); err != nil {
		d.t.Fatal(err)
	}
	d.within(func() error { // its socket comes a moment after that of the API
		if r := call(d.Host, "ADD", "c2", blue); r.Code != 0 {
			return errors.New(r.Out + r.Err)
		}
		return nil
	})
	if r := call(d.Host, "DEL", "c2", blue); r.Code != 0 {
		d.t.Fatalf("DEL: %s%s", r.Out, r.Err)
	}
}

func (d *damaged) within(try func() error) {
	d.t.Helper()
	d.Within(10*time.Second, "a container is attached", try)
}

// recover takes the documented way out, after which all works.
func (d *damaged) recover(reason string) {
	d.t.Helper()
	if strings.Contains(reason, "recover-store") {
		cmd := d.AgentCommand(d.t.Context(), append([]string{"recover-store"}, d.AgentArgs()...)...)
		out, err := cmd.CombinedOutput()
		d.t.Logf("  recover-store: %s", out)
		if err != nil {
			d.t.Fatalf("recover-store: %v", err)
		}
		d.says("another store or an emptied one")
		if err := same(d.before, d.Exact()); err != nil {
			d.t.Fatal(err)
		}
	}
	var ops []clientv3.Op
	for _, k := range goods.keys() {
		ops = append(ops, d.store.op(k, goods[k]))
	}
	d.store.commit(ops...)
	d.MustCtl("resync", "--accept")
	d.AwaitReady()
	awaitIntent(d.Host, goods)
	if err := same(d.before, quiet(d.Host, d.Exact)); err != nil {
		d.t.Fatal(err)
	}
}
