package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/tests/e2e/host"
)

// openFiles is how many files the agent has open.
func openFiles(t *testing.T, h *host.Host) int {
	t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.AgentPid()))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// Namespaces cost the agent few files, which it gives back after the DEL although they
// live on. At the limit an ADD is answered with which limit that is, who is attached
// has no part in it, and when the pressure ends all goes on without a restart.
func TestOpenFilesOfNamespaces(t *testing.T) {
	t.Parallel()
	h := host.New(t, host.Options{Parallel: true, NoEngine: true})
	const n = 14
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
		h.Mount(names[i])
	}
	h.Start()
	first := add(t, h, names[0], blue)
	before := openFiles(t, h)
	for _, c := range names[1:] {
		add(t, h, c, blue)
	}
	const each, others = 4, 8 // two, and two requests that may come again; calls
	if more := openFiles(t, h) - before; more > each*(n-1)+others {
		t.Errorf("%d namespaces more cost %d files", n-1, more)
	}
	for _, c := range names[1:] {
		if r := call(h, "DEL", c, blue); r.Code != 0 {
			t.Errorf("DEL %s: %s%s", c, r.Out, r.Err)
		}
	}
	h.Eventually("their files are closed", func() error {
		if now := openFiles(t, h); now > before+others {
			return fmt.Errorf("%d files were open before, %d are after", before, now)
		}
		return nil
	})

	// Room for a few namespaces more, beside what is kept free.
	var had unix.Rlimit
	now := openFiles(t, h)
	limit := uint64(now+15)*8/7 + 1
	if err := unix.Prlimit(h.AgentPid(), unix.RLIMIT_NOFILE, nil, &had); err != nil {
		t.Fatal(err)
	}
	set := func(soft uint64) {
		if err := unix.Prlimit(h.AgentPid(), unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: soft, Max: had.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(limit)
	attached, refused := []string{names[0]}, ""
	for _, c := range names[1:] {
		if r := call(h, "ADD", c, blue); r.Code != 0 {
			want := fmt.Sprintf("the limit of open files (%d) is reached", limit)
			if !strings.Contains(r.Out, `"code": 11`) || !strings.Contains(r.Out, want) || !strings.Contains(r.Out, "raise LimitNOFILE") {
				t.Errorf("ADD %s: exit %d\n%s%s", c, r.Code, r.Out, r.Err)
			}
			refused = c
			break
		}
		attached = append(attached, c)
	}
	if refused == "" {
		t.Fatalf("%d open files are allowed, %d are open, and nobody was refused", limit, openFiles(t, h))
	}
	for _, c := range attached {
		if err := ping(h.Named(c), first.IPs[0].Gateway); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
	if status := h.Ctl("status"); !strings.Contains(status.Out, "open-files") || !strings.Contains(status.Out, fmt.Sprint(limit)) {
		t.Errorf("status says nothing of it:\n%s%s", status.Out, status.Err)
	}
	set(had.Cur)
	add(t, h, refused, blue)
}
