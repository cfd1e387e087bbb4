package arch

import (
	"path"
	"strings"
	"testing"
)

// TestKindsConform: every kind is held to the contract of descriptors by the suite, and one that
// works on a kernel is on that of the host and on the one in memory.
func TestKindsConform(t *testing.T) {
	sources, tests := map[string]string{}, map[string]string{}
	for _, name := range files(t, ".go") {
		dir := path.Dir(name)
		switch {
		case path.Dir(dir) != "descriptors":
		case strings.HasSuffix(name, "_test.go"):
			tests[dir] += read(t, name)
		default:
			sources[dir] += read(t, name)
		}
	}
	kinds := 0
	for dir, source := range sources {
		if !strings.Contains(source, "scheduler.Descriptor[") || dir == "descriptors/kind" || dir == "descriptors/owned" {
			continue
		}
		kinds++
		if !strings.Contains(tests[dir], "schedulertest.Conform(") {
			t.Errorf("%s has no test of the contract (schedulertest.Conform)", dir)
		}
		if strings.Contains(source, "kernel.Kernel") && !strings.Contains(tests[dir], "hosttest.OnEachKernel") {
			t.Errorf("%s has no test on each kernel (hosttest.OnEachKernel)", dir)
		}
	}
	if kinds < 18 {
		t.Errorf("found %d kinds; has what makes one another name?", kinds)
	}
}
