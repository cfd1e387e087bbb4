package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/tests/e2e/host"
)

var (
	staleRuns = flag.Int("stale", 3, "how many torn copies of the state directory TestStaleState puts back")
	staleSeed = flag.Uint64("stale-seed", uint64(time.Now().UnixNano()), "seed of TestStaleState")
)

// staleHost is a host on which pods are attached and detached, with copies of its ledgers.
type staleHost struct {
	*host.Host
	t        *testing.T
	r        *rand.Rand
	spaces   map[string]*netlinktest.Namespace
	attached map[string]attached
	copies   map[string][]byte
}

// toggle attaches or detaches a pod.
func (s *staleHost) toggle(pod string) string {
	if _, is := s.attached[pod]; is {
		if r := call(s.Host, "DEL", pod, blue); r.Code != 0 {
			s.t.Errorf("DEL %s: %s%s", pod, r.Out, r.Err)
		}
		delete(s.attached, pod)
		return "DEL " + pod
	}
	s.attached[pod] = add(s.t, s.Host, pod, blue)
	return "ADD " + pod + " " + s.attached[pod].IPs[0].Address
}

// TestStaleState restores an inconsistent copy of the ledgers while pods are attached: each file is
// of a different time, or one ledger ends with zeroes. The pods keep their addresses and lose no
// packet, no detached pod is attached again, no address is assigned twice, and each pod can be
// detached.
func TestStaleState(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	spaces := map[string]*netlinktest.Namespace{}
	for i := range 5 {
		pod := fmt.Sprint("c", i)
		spaces[pod] = h.Mount(pod)
	}
	h.Mount("new")
	empty := h.Exact()
	t.Logf("seed %d", *staleSeed)
	for run := range *staleRuns {
		r := rand.New(rand.NewPCG(*staleSeed, uint64(run)))
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			s := &staleHost{Host: h.With(t), t: t, r: r, spaces: spaces, attached: map[string]attached{}, copies: map[string][]byte{}}
			s.play(empty)
		})
		if t.Failed() {
			break
		}
	}
}

// TestStaleObjects restores empty ledgers of addresses and attachments, and a ledger of objects in
// which the attached pod has the address of an earlier attachment. The address of its link is
// assigned to no other pod.
func TestStaleObjects(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	s := &staleHost{Host: h, t: t, spaces: map[string]*netlinktest.Namespace{"c1": h.Mount("c1"), "c2": h.Mount("c2")}, attached: map[string]attached{}, copies: map[string][]byte{}}
	h.Mount("new")
	empty := h.Exact()
	h.Start()
	s.toggle("c2")
	s.toggle("c1")
	s.toggle("c2")
	s.copyOf("ledger")
	s.toggle("c1")
	s.copyOf("ipam/ledger")
	s.copyOf("cni/ledger")
	s.toggle("c1")
	h.Stop()
	s.restore(empty)
}

func (s *staleHost) play(empty string) {
	t := s.t
	s.Start()
	steps := 4 + s.r.IntN(8)
	var log []string
	defer func() {
		if t.Failed() {
			t.Logf("steps:\n%s", strings.Join(log, "\n"))
		}
	}()
	for range steps {
		log = append(log, s.toggle(fmt.Sprint("c", s.r.IntN(len(s.spaces)))))
		for _, file := range stateFiles {
			if s.r.IntN(3) == 0 {
				log = append(log, s.copyOf(file))
			}
		}
	}
	if s.r.IntN(3) == 0 {
		s.Kill9()
		log = append(log, "kill")
	} else {
		s.Stop()
	}
	if s.r.IntN(4) == 0 {
		file := stateFiles[s.r.IntN(len(stateFiles))]
		text, err := os.ReadFile(filepath.Join(s.StateDir(), file))
		if err != nil {
			t.Fatal(err)
		}
		n := s.r.IntN(len(text))
		clear(text[n:])
		s.copies = map[string][]byte{file: text}
		log = append(log, fmt.Sprintf("%s is zero from byte %d of %d", file, n, len(text)))
	}
	s.restore(empty)
}

// copyOf reads a state file, to be restored later.
func (s *staleHost) copyOf(file string) string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.StateDir(), file))
	if err != nil {
		s.t.Fatal(err)
	}
	s.copies[file] = text
	return "copy " + file
}

// restore writes the copies back while the agent is stopped, starts it, and checks that nothing is
// lost. At the end all pods are detached and the agent is stopped.
func (s *staleHost) restore(empty string) {
	t := s.t
	before := s.Exact()
	for file, text := range s.copies {
		if err := os.WriteFile(filepath.Join(s.StateDir(), file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var pings []func()
	for pod, a := range s.attached {
		pings = append(pings, host.Ping(t, s.spaces[pod].Path, a.IPs[0].Gateway))
	}
	s.Launch()
	s.awaitSynced()
	if diff := host.Diff(before, s.Exact()); diff != "" {
		t.Errorf("the start changed the host:\n%s", diff)
	}
	if removed := s.Removed(); removed != "" {
		t.Errorf("the start removed something:\n%s", removed)
	}
	if len(s.attached) > 0 {
		a := add(t, s.Host, "new", blue)
		for pod, had := range s.attached {
			if a.IPs[0].Address == had.IPs[0].Address {
				t.Errorf("%s of %s is assigned twice", a.IPs[0].Address, pod)
			}
		}
		if r := call(s.Host, "DEL", "new", blue); r.Code != 0 {
			t.Errorf("DEL new: %s%s", r.Out, r.Err)
		}
		if diff := host.Diff(before, s.Exact()); diff != "" {
			t.Errorf("ADD and DEL of another pod changed the host:\n%s", diff)
		}
	}
	for _, stop := range pings {
		stop()
	}
	for pod := range s.attached {
		if r := call(s.Host, "DEL", pod, blue); r.Code != 0 {
			t.Errorf("DEL %s: %s%s", pod, r.Out, r.Err)
		}
		if names := s.spaces[pod].Names(t); len(names) > 0 {
			t.Errorf("left in %s: %v", pod, names)
		}
	}
	s.MustCtl("resync", "--accept")
	s.AwaitReady()
	if diff := host.Diff(empty, s.Exact()); diff != "" {
		t.Errorf("left:\n%s", diff)
	}
	s.Stop()
}

// awaitSynced waits until all sources have synced, except the ledger, which may never sync.
func (s *staleHost) awaitSynced() {
	s.t.Helper()
	s.Eventually("the sources have synced", func() error {
		r := s.Ctl("status", "-o", "json")
		var status struct {
			Sources []struct {
				Name   string
				Synced bool
			}
		}
		if err := json.Unmarshal([]byte(r.Out), &status); err != nil {
			return fmt.Errorf("%w: %s", err, r.Err)
		}
		if len(status.Sources) == 0 {
			return fmt.Errorf("no sources: %s", r.Out)
		}
		for _, src := range status.Sources {
			if !src.Synced && src.Name != "ledger" {
				return fmt.Errorf("%s has not synced", src.Name)
			}
		}
		return nil
	})
}
