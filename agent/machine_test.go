package agent

import (
	"os"
	"strings"
	"testing"
	"time"
)

// TestMachine: what the agent runs on is told as it is now, and each time
// anew.
func TestMachine(t *testing.T) {
	h := machineHealth(time.Now())
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := h.Details["kernel"], strings.TrimSpace(string(release)); got != want {
		t.Errorf("kernel %q, want %q", got, want)
	}
	if h.Details["memory"] == "" || h.Details["capabilities"] == "" || h.Details["processors"] == "0" {
		t.Errorf("%v", h.Details)
	}
	h.Details["kernel"] = "spoilt"
	if machineHealth(time.Now()).Details["kernel"] == "spoilt" {
		t.Error("a reader changed what others read")
	}
}
