package containerd_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/container"
)

// silent is a runtime whose events get lost.
type silent struct{ container.Runtime }

func (s silent) Events(ctx context.Context, ready func(), _ func(container.Hint)) error {
	return s.Runtime.Events(ctx, ready, func(container.Hint) {})
}

// parent is the parent of a process.
func parent(t *testing.T, pid int) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), ") ")
	var state string
	var ppid int
	if _, err := fmt.Sscan(after, &state, &ppid); err != nil || ppid <= 1 {
		t.Fatalf("process %d has parent %d, %v", pid, ppid, err)
	}
	return ppid
}
