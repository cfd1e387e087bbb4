package buildinfo

import "testing"

func TestString(t *testing.T) {
	defer func(v, c string) { version, commit = v, c }(version, commit)
	for _, c := range []struct{ version, commit, want string }{
		{"0.1.0~dev", "0123456789ab", "0.1.0~dev (commit 0123456789ab)"},
		{"0.1.0", "", "0.1.0"},
		{"", "", "devel"},
	} {
		if version, commit = c.version, c.commit; c.commit == "" && Commit() != "" {
			continue // the Go tool has stamped this test
		}
		if got := String(); got != c.want {
			t.Errorf("%q %q: got %q, want %q", c.version, c.commit, got, c.want)
		}
	}
}
