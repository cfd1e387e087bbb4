package e2e

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

var (
	lossRuns = flag.Int("losses", 4, "how many random damages of the state directory TestLostState tries, beside the fixed ones")
	lossSeed = flag.Uint64("loss-seed", uint64(time.Now().UnixNano()), "seed of the random damages")
)

// stateFiles are the files that say what is ours.
var stateFiles = []string{"ledger", "ipam/ledger", "cni/ledger"}

// loss is one way in which a state directory may be found.
type loss struct {
	name string
	do   func(t *testing.T, dir string)
	// told is what status says; "" if nothing of it can be known.
	told string
	// forgotten is how many of the two attachments have no record, -1 if that depends.
	forgotten int
	starts    int
}

func change(file string, f func(text []byte) []byte) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, file)
		text, err := os.ReadFile(path)
		if err == nil {
			if text = f(text); text == nil {
				err = os.Remove(path)
			} else {
				err = os.WriteFile(path, text, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fixedLosses are those that everybody meets.
func fixedLosses() (all []loss) {
	for _, file := range stateFiles {
		forgotten := 0
		if file == "cni/ledger" {
			forgotten = 2
		}
		all = append(all,
			loss{file + " is missing", change(file, func([]byte) []byte { return nil }), file + ": it is missing", forgotten, 2},
			loss{file + " is empty", change(file, func([]byte) []byte { return []byte{} }), file + ": ", forgotten, 2},
			loss{file + " is cut in the last line", change(file, func(text []byte) []byte { return text[:len(text)-7] }), file + ": ", 0, 1},
			loss{file + " has lost all but its first line", change(file, func(text []byte) []byte {
				return text[:bytes.IndexByte(text, '\n')+1]
			}), file + ": ", forgotten, 1})
	}
	for _, prefix := range []string{"ippool/", "ipaddress/"} {
		all = append(all, loss{"ipam/ledger has lost " + prefix, change("ipam/ledger", func(text []byte) (rest []byte) {
			for line := range bytes.Lines(text) {
				if !bytes.Contains(line, []byte(prefix)) {
					rest = append(rest, line...)
				}
			}
			return rest
		}), "ipam/ledger: ", 0, 1})
	}
	return append(all,
		loss{"the ledgers of addresses and attachments are missing", func(t *testing.T, dir string) {
			for _, sub := range []string{"ipam", "cni"} {
				if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
					t.Fatal(err)
				}
			}
		}, "cni/ledger: it is missing", 2, 1},
		loss{"the state directory is lost", func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, "the state directory is empty", 2, 2})
}

// randomLoss flips, takes out or cuts something of one file.
func randomLoss(r *rand.Rand, file string) loss {
	what, at, bit := r.IntN(3), r.Float64(), r.IntN(8)
	name := fmt.Sprintf("%s at %.4f: %s", file, at, []string{fmt.Sprintf("bit %d is flipped", bit), "a byte is missing", "it is cut"}[what])
	return loss{name, change(file, func(text []byte) []byte {
		n := int(at * float64(len(text)))
		if len(text) == 0 {
			what = 2
		}
		switch what {
		case 0:
			text[n] ^= 1 << bit
			return text
		case 1:
			return append(text[:n], text[n+1:]...)
		}
		return text[:n]
	}), file + ": ", -1, 1}
}

// otherFiles are the other files of a state directory, but for those of etcd, whose
// damages are those of TestDamagedStore. What they say can be done without.
func otherFiles(t *testing.T, dir string) (names []string) {
	t.Helper()
	for _, name := range filesBelow(t, dir) {
		if !strings.HasPrefix(name, "etcd/") && !slices.Contains(stateFiles, name) {
			names = append(names, name)
		}
	}
	if len(names) < 3 {
		t.Fatalf("only %v", names)
	}
	return names
}

// TestLostState starts the agent on a host with attached containers and operators'
// interfaces, and a state directory that was damaged: no container loses its interface,
// its address or a packet, no address is given twice, and status says what is lost, also
// after another start. What is not attached any more is gone in the end.
func TestLostState(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	namespaces := map[string]*netlinktest.Namespace{}
	for _, c := range []string{"c1", "c2", "c3", "site"} {
		namespaces[c] = h.Mount(c)
	}
	empty := h.Exact()
	h.Start()
	first := add(t, h, "c1", blue)
	gateway := add(t, h, "c2", blue).IPs[0].Gateway
	h.MustCtl("apply", "-f", operatorsFile(t))
	h.AwaitSettled()
	h.Stop()
	kept := h.Dir + "/kept"
	copyDir(t, h.StateDir(), kept)
	before := h.Exact()
	t.Logf("seed %d", *lossSeed)
	r := rand.New(rand.NewPCG(*lossSeed, 1))
	all := fixedLosses()
	for range *lossRuns {
		all = append(all, randomLoss(r, stateFiles[r.IntN(len(stateFiles))]))
	}
	for _, d := range all {
		t.Run(d.name, func(t *testing.T) {
			h := h.With(t)
			if err := os.RemoveAll(h.StateDir()); err != nil {
				t.Fatal(err)
			}
			copyDir(t, kept, h.StateDir())
			d.do(t, h.StateDir())
			pings := host.Ping(t, namespaces["c1"].Path, gateway)
			for range d.starts {
				h.Launch()
				awaitTold(t, h, d.told)
				if diff := host.Diff(before, h.Exact()); diff != "" {
					t.Errorf("the start changed something:\n%s", diff)
				}
				if removed := h.Removed(); removed != "" {
					t.Errorf("the start removed something:\n%s", removed)
				}
				if d.forgotten >= 0 {
					if got := strings.Count(h.MustCtl("cni"), "forgotten"); got != d.forgotten {
						t.Errorf("%d attachments are shown as forgotten, want %d:\n%s", got, d.forgotten, h.MustCtl("cni"))
					}
				}
				a := add(t, h, "c3", blue)
				if ip := strings.TrimSuffix(a.IPs[0].Address, "/24"); strings.Contains(before, ip+"\"") || strings.Contains(before, ip+"/") || ip == gateway {
					t.Errorf("%s is given twice", ip)
				}
				if r := call(h, "DEL", "c3", blue); r.Code != 0 {
					t.Errorf("DEL c3: %s%s", r.Out, r.Err)
				}
				h.Stop()
			}
			pings()
		})
	}
	for _, file := range otherFiles(t, kept) {
		d := randomLoss(r, file)
		t.Run(d.name, func(t *testing.T) {
			h := h.With(t)
			if err := os.RemoveAll(h.StateDir()); err != nil {
				t.Fatal(err)
			}
			copyDir(t, kept, h.StateDir())
			d.do(t, h.StateDir())
			pings := host.Ping(t, namespaces["c1"].Path, gateway)
			h.Launch()
			h.Eventually("containers are attached", func() error {
				if r := call(h, "ADD", "c3", blue); r.Code != 0 {
					return fmt.Errorf("%s%s", r.Out, r.Err)
				}
				return nil
			})
			if r := call(h, "DEL", "c3", blue); r.Code != 0 {
				t.Errorf("DEL c3: %s%s", r.Out, r.Err)
			}
			if diff := host.Diff(before, h.Exact()); diff != "" {
				t.Errorf("the start changed something:\n%s", diff)
			}
			h.Stop()
			pings()
		})
	}
	t.Run("adopt, forget and DEL", func(t *testing.T) {
		h := h.With(t)
		if err := os.RemoveAll(h.StateDir()); err != nil {
			t.Fatal(err)
		}
		h.Launch()
		awaitTold(t, h, "the state directory is empty")
		if r := call(h, "CHECK", "c1", withResult(blue, first)); r.Code == 0 || !strings.Contains(r.Out, "agentctl cni adopt c1") {
			t.Errorf("CHECK of what is forgotten: %s%s", r.Out, r.Err)
		}
		h.MustCtl("cni", "adopt", "c1")
		for range 2 { // and after a start
			if r := call(h, "CHECK", "c1", withResult(blue, first)); r.Code != 0 {
				t.Errorf("CHECK of what is adopted: %s%s", r.Out, r.Err)
			}
			if out := h.MustCtl("cni"); strings.Count(out, "forgotten") != 1 || strings.Count(out, " added ") != 1 {
				t.Errorf("attachments:\n%s", out)
			}
			if diff := host.Diff(before, h.Exact()); diff != "" {
				t.Errorf("adopting changed something:\n%s", diff)
			}
			h.Stop()
			h.Launch()
			awaitTold(t, h, "the state directory is empty")
		}
		h.MustCtl("cni", "forget", "blue/c2/eth0")
		if names := namespaces["c2"].Names(t); len(names) > 0 {
			t.Errorf("left in c2: %v", names)
		}
		if r := call(h, "DEL", "c1", blue); r.Code != 0 || r.Out != "" {
			t.Errorf("DEL c1: %s%s", r.Out, r.Err)
		}
		h.MustCtl("resync", "--accept")
		h.AwaitReady()
		if diff := host.Diff(empty, h.Exact()); diff != "" {
			t.Errorf("left:\n%s", diff)
		}
		h.Stop()
		h.Start() // it was accepted for good
	})
	t.Run("DEL", func(t *testing.T) {
		h := h.With(t)
		a := add(t, h, "c1", blue)
		h.Stop()
		if err := os.RemoveAll(h.StateDir()); err != nil {
			t.Fatal(err)
		}
		h.Launch()
		awaitTold(t, h, "the state directory is empty")
		for range 2 {
			if r := call(h, "DEL", "c1", withResult(blue, a)); r.Code != 0 {
				t.Errorf("DEL c1: %s%s", r.Out, r.Err)
			}
		}
		if diff := host.Diff(empty, h.Exact()); diff != "" {
			t.Errorf("left:\n%s", diff)
		}
	})
}

// operatorsFile is intent of operators beside attachments: a claim, and an interface
// with its address.
func operatorsFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "intent.yaml")
	text := `
intent:
  ippool/site: {network: 10.71.0.0/29}
  ipclaim/a: {pool: site}
  ipclaim/b: {pool: site}
  interface/a: {namespace: {netns: site}, addresses: ["claim:a"], veth: {peer: b}}
  interface/b: {addresses: ["claim:b"], veth: {peer: a}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// awaitTold waits until the sources have synced and status says what was lost.
func awaitTold(t *testing.T, h *host.Host, told string) {
	t.Helper()
	h.Eventually("status tells what is lost", func() error {
		r := h.Ctl("status", "-o", "json")
		var s struct {
			State   string
			Reasons []string
			Sources []struct {
				Name   string
				Synced bool
			}
		}
		if err := json.Unmarshal([]byte(r.Out), &s); err != nil {
			return fmt.Errorf("%w: %s", err, r.Err)
		}
		for _, src := range s.Sources {
			if !src.Synced && src.Name != "ledger" {
				return fmt.Errorf("%s has not synced", src.Name)
			}
		}
		if text := strings.Join(s.Reasons, "\n"); s.State == "ready" || !strings.Contains(text, told) || !strings.Contains(text, "resync --accept") {
			return fmt.Errorf("state %s: %s", s.State, text)
		}
		return nil
	})
}
