package agent

import "testing"

// TestCleared: the last line of a cleanup counts as people do.
func TestCleared(t *testing.T) {
	for _, x := range []struct {
		removed, givenBack int64
		want, shown        string
	}{
		{0, 0, "0 objects removed", "0 removed, 0 left"},
		{1, 0, "1 object removed", "1 removed, 0 left"},
		{2, 1, "2 objects removed, 1 given back", "2 removed, 1 given back, 0 left"},
	} {
		var c Cleared
		c.removed.Store(x.removed)
		c.givenBack.Store(x.givenBack)
		if got, shown := c.done("object"), c.Show(0)[0]; got != x.want || shown != x.shown {
			t.Errorf("%q and %q, want %q and %q", got, shown, x.want, x.shown)
		}
	}
}
