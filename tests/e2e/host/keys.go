package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Key is what `agentctl get KEY -o json` says.
type Key struct {
	Key, Kind, Name, State, Reason, Origin string

	Missing  []struct{ Need, Why string }
	Fields   []struct{ Field, Error string }
	Desired  json.RawMessage
	Actual   json.RawMessage
	Metadata json.RawMessage
	Derived  []struct{ Key, State, Reason string }
	Attempts int
	Since    string
	NextTry  string `json:"next_try"`
}

// Key asks for one key. One that nobody knows has no state.
func (h *Host) Key(key string) (k Key) {
	h.t.Helper()
	r := h.Ctl("get", key, "-o", "json")
	if r.Code != 0 {
		return Key{Key: key}
	}
	if err := json.Unmarshal([]byte(r.Out), &k); err != nil {
		h.t.Fatalf("agentctl get %s: %v\n%s", key, err, r.Out)
	}
	return k
}

// Keys asks for all keys, of some kinds or with some prefixes.
func (h *Host) Keys(targets ...string) (all []Key) {
	h.t.Helper()
	out := h.MustCtl(append([]string{"get", "-o", "json"}, targets...)...)
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		h.t.Fatalf("agentctl get: %v\n%s", err, out)
	}
	return all
}

// Text is the key as the tests write it down: state and reason.
func (k Key) Text() string {
	if k.State == "" {
		return k.Key + " unknown"
	}
	text := k.Key + " " + k.State
	if k.Reason != "" {
		text += ": " + k.Reason
	}
	for _, m := range k.Missing {
		text += "\n  " + m.Need + ": " + m.Why
	}
	return text
}

// States are the lines of some keys in the order asked for.
func (h *Host) States(keys ...string) string {
	h.t.Helper()
	var b strings.Builder
	for _, k := range keys {
		fmt.Fprintln(&b, h.Key(k).Text())
	}
	return b.String()
}

// Await waits until all keys are in a state.
func (h *Host) Await(state string, keys ...string) {
	h.t.Helper()
	h.Eventually(strings.Join(keys, ", ")+" "+state, func() error {
		for _, key := range keys {
			if k := h.Key(key); k.State != state {
				return fmt.Errorf("want %s: %s", state, k.Text())
			}
		}
		return nil
	})
}

// AwaitConfigured blocks in `agentctl wait` until all keys are configured.
func (h *Host) AwaitConfigured(keys ...string) {
	h.t.Helper()
	r := h.Ctl(append([]string{"wait", "--timeout", Patience.String()}, keys...)...)
	if r.Code != 0 {
		h.t.Fatalf("not configured within %v:\n%s%s", Patience, h.States(keys...), r.Err)
	}
}

// AwaitSettled blocks until every key has settled.
func (h *Host) AwaitSettled() {
	h.t.Helper()
	if r := h.Ctl("wait", "--all", "--for", "settled", "--timeout", Patience.String()); r.Code != 0 {
		h.t.Fatalf("not settled within %v:\n%s%s", Patience, r.Out, r.Err)
	}
}

// KernelWrites is how many writing requests the agent has sent to the kernel
// since it started.
func (h *Host) KernelWrites() int {
	h.t.Helper()
	page, err := h.HTTP("/metrics")
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.SplitSeq(page, "\n") {
		if n, ok := strings.CutPrefix(line, "plumb_kernel_writes_total "); ok {
			v, err := strconv.ParseFloat(n, 64)
			if err != nil {
				h.t.Fatal(err)
			}
			return int(v)
		}
	}
	h.t.Fatal("/metrics does not tell the kernel writes")
	return 0
}

// Done lists the operations of the agent since it started, except reads.
func (h *Host) Done() string { h.t.Helper(); return h.done("create", "update", "replace", "delete") }

// Removed lists the objects in the kernel that the agent has deleted or replaced since it started.
func (h *Host) Removed() string {
	h.t.Helper()
	var b strings.Builder
	for line := range strings.Lines(h.done("replace", "delete")) {
		if !strings.Contains(line, " ipclaim/") && !strings.Contains(line, " ippool/") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func (h *Host) done(ops ...string) string {
	h.t.Helper()
	var records []struct {
		Seq     int
		Cause   string
		Earlier bool
		Done    []struct{ Op, Key, Reason, Error string }
	}
	out := h.MustCtl("history", "-o", "json")
	if err := json.Unmarshal([]byte(out), &records); err != nil {
		h.t.Fatalf("agentctl history: %v\n%s", err, out)
	}
	var b strings.Builder
	for _, r := range records {
		for _, d := range r.Done {
			if !r.Earlier && slices.Contains(ops, d.Op) {
				fmt.Fprintln(&b, r.Seq, r.Cause, d.Op, d.Key, d.Reason, d.Error)
			}
		}
	}
	return b.String()
}
