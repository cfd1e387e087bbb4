package scheduler_test

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler/internal/sim"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

var (
	simSteps = flag.Int("sim", 0, "play at least that many random steps, on all processors")
	worker   = flag.Int("worker", 0, "be one process of -sim, which plays that many steps")
	progress = flag.String("progress", "", "where a worker notes the seed that it plays")
)

// shortSim is how much of the simulation every test run plays; the race
// detector makes it about ten times as slow.
const shortSim = 90_000

// TestSim plays random histories until there were enough steps, and shows that
// nothing was left out: every fault, every state and every change of state of
// the lists below really happened.
func TestSim(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	began, tally := time.Now(), schedulertest.NewTally()
	switch {
	case *worker > 0:
		simulate(t, *from, *worker, tally)
		tell(t, tally)
		return
	case *simSteps == 0:
		n := shortSim
		if raceEnabled {
			n /= 15
		}
		simulate(t, *from, n, tally)
	default:
		simulateApart(t, tally)
	}
	took := time.Since(began)
	t.Logf("%d steps from seed %d on in %v: %.0f a second%s", allSteps(tally), *from, took.Round(time.Second),
		float64(allSteps(tally))/took.Seconds(), table(tally))
	if raceEnabled {
		return // that was too little to show it
	}
	if missing := tally.Missing(mustHappen(*simSteps > 0)); len(missing) > 0 {
		t.Errorf("this never happened:\n%s", strings.Join(missing, "\n"))
	}
}

// tell prints a tally for the process that started this one.
func tell(t *testing.T, tally *schedulertest.Tally) {
	out, err := json.Marshal(tally)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("TALLY %s\n", out)
}

// simulate plays histories from a seed on, a calm one among eight.
func simulate(t *testing.T, seed uint64, enough int, tally *schedulertest.Tally) {
	var note *os.File
	if *progress != "" {
		var err error
		if note, err = os.Create(*progress); err != nil {
			t.Fatal(err)
		}
		defer note.Close()
	}
	defer narrow(0)
	failed := 0
	for played := 0; played < enough && failed < *failures; seed++ {
		if note != nil {
			fmt.Fprintf(io.NewOffsetWriter(note, 0), "%020d", seed)
			if seed%4096 == 0 {
				tell(t, tally)
			}
		}
		calm := seed%8 == 0
		h := sim.History(seed, sim.Profile{Steps: *steps, Calm: calm})
		narrow(windowOf(seed))
		if err := play(t, h, tally); err != nil {
			failed++
			t.Errorf("seed %d, calm %v, -window %d: %s", seed, calm, windowOf(seed), shrunk(t, h, err))
		}
		played += len(h)
	}
}

// simulateApart has one process for each processor play a share of the steps.
// A process that a history takes along is followed by another.
func simulateApart(t *testing.T, tally *schedulertest.Tally) {
	var all sync.WaitGroup
	var mu sync.Mutex
	n := runtime.NumCPU()
	for i := range n {
		all.Go(func() {
			seed, left, note := *from+uint64(i)<<32, *simSteps/n+1, t.TempDir()+"/seed"
			for died := 0; left > 0 && died < *failures; died++ {
				cmd := exec.Command(os.Args[0], "-test.run=^TestSim$", "-test.timeout=0", "-worker", strconv.Itoa(left),
					"-from", strconv.FormatUint(seed, 10), "-steps", strconv.Itoa(*steps), "-progress", note,
					"-failures", strconv.Itoa(*failures))
				out, err := cmd.CombinedOutput()
				text, _ := os.ReadFile(note)
				last, _ := strconv.ParseUint(string(text), 10, 64)
				part := tallyOf(string(out))
				mu.Lock()
				t.Logf("seeds %d to %d", seed, last)
				if err != nil {
					t.Errorf("seed %d: %v\n%s", last, err, out)
				}
				tally.Add(part)
				mu.Unlock()
				if seed, left = last+1, left-allSteps(part); err == nil || strings.Contains(string(out), "FAIL: TestSim") {
					return
				}
			}
		})
	}
	all.Wait()
}

func tallyOf(out string) *schedulertest.Tally {
	tally := schedulertest.NewTally()
	lines := bufio.NewScanner(strings.NewReader(out))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "TALLY "); ok {
			_ = json.Unmarshal([]byte(text), tally)
		}
	}
	return tally
}

func allSteps(tally *schedulertest.Tally) (n int) {
	for _, name := range tally.Names() {
		if strings.HasPrefix(name, "step ") {
			n += tally.Get(name)
		}
	}
	return n
}

// mustHappen is what a simulation is not worth its name without; the changes of
// state take a long one.
func mustHappen(states bool) []string {
	out := []string{"crash", "reverted", "planned", "look key fail", "bound reached"}
	for _, op := range []string{"create", "update", "delete", "look", "events"} {
		for _, f := range schedulertest.FaultsOf(op) {
			out = append(out, op+" "+f.String())
		}
	}
	for _, s := range strings.Fields(`txn plan put take change foreign fault release wait pause resume retry register
		unregister restart speak`) {
		out = append(out, "step "+s)
	}
	if !states {
		return out
	}
	for from, to := range map[string]string{
		"absent":        "configured pending invalid failed retrying unimplemented observed paused",
		"configured":    "pending invalid failed retrying unknown drifted unimplemented leftover removed paused",
		"pending":       "configured invalid failed retrying unimplemented leftover removed paused",
		"invalid":       "configured pending unimplemented leftover removed paused",
		"failed":        "configured pending invalid retrying removed",
		"retrying":      "configured pending invalid failed removed paused",
		"unknown":       "configured pending observed removed",
		"drifted":       "configured pending retrying leftover", // it is there, so it is leftover until it was removed
		"unimplemented": "configured pending invalid removed unknown",
		"observed":      "removed",
		"leftover":      "configured pending removed",
		"paused":        "configured pending invalid removed leftover",
	} {
		for _, s := range strings.Fields(to) {
			out = append(out, "change "+from+" → "+s)
		}
	}
	return out
}
