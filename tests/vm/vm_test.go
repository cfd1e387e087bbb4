package vm

import "testing"

// TestParse: what commands print comes apart by the marks between them.
func TestParse(t *testing.T) {
	got := parse([]byte("one\ntwo\n\x01end 0\nno end of line\x01end 3\n\x01end 0\nnot finished\n"))
	want := []Result{{"one\ntwo\n", 0}, {"no end of line", 3}, {"", 0}}
	if len(got) != len(want) {
		t.Fatalf("%d results, want %d: %v", len(got), len(want), got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: %+v, want %+v", i, got[i], want[i])
		}
	}
}
