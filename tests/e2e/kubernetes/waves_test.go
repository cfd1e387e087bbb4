package kubernetes

import (
	"bytes"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var pods = flag.Int("pods", 40, "how many pods TestWaves creates")

// reads matches what the API server counts of single reads of pods.
var reads = regexp.MustCompile(`(?m)^apiserver_request_total\{[^}]*resource="pods"[^}]*verb="GET"[^}]*\} (\d+)$`)

// gets returns how often single pods were read at the API server.
func (n *node) gets() (count int) {
	n.t.Helper()
	text, err := n.api.RESTClient().Get().AbsPath("/metrics").DoRaw(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, m := range reads.FindAllSubmatch(bytes.TrimSpace(text), -1) {
		c, _ := strconv.Atoi(string(m[1]))
		count += c
	}
	return count
}

// TestWaves attaches pods in waves of 20. Of half of them the annotation comes after the ADD. No pod is read by
// itself: the watch brings all in time.
func TestWaves(t *testing.T) {
	n := newNode(t)
	n.Start()
	const wave = 20
	var mu sync.Mutex
	var took []time.Duration
	before := n.gets()
	for first := 0; first < *pods; first += wave {
		var all []*sandbox
		for i := first; i < min(first+wave, *pods); i++ {
			name := fmt.Sprintf("web-%d", i)
			intent := ""
			if i%2 == 0 {
				intent = eth0(fmt.Sprintf("10.9.%d.%d/16", i/200, 1+i%200))
			}
			all = append(all, n.sandbox(fmt.Sprintf("s%d", i), name, n.pod(name, intent), green))
		}
		var wg sync.WaitGroup
		for i, s := range all {
			began := time.Now()
			wg.Go(func() {
				if r := s.call("ADD"); r.Code != 0 {
					t.Errorf("ADD %s: %s%s", s.id, r.Out, r.Err)
				}
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(began))
			})
			if i := first + i; i%2 == 1 {
				n.want(s.pod, eth0(fmt.Sprintf("10.9.%d.%d/16", i/200, 1+i%200)))
			}
		}
		wg.Wait()
		for _, s := range all {
			if is := s.links(); is != "eth0" {
				t.Errorf("the links of %s are %q", s.id, is)
			}
		}
	}
	slices.Sort(took)
	t.Logf("%d ADDs, p50 %s, p99 %s", len(took), took[len(took)/2], took[len(took)*99/100])
	if is := n.gets(); is != before {
		t.Errorf("%d pods were read by themselves", is-before)
	}
	if s := n.MustCtl("status"); strings.Contains(s, "failed") {
		t.Errorf("%s", s)
	}
}
