package container

import (
	"strings"
	"testing"
)

// TestBelongs: a full id proves a process wherever it stands, a short one only
// as a word of its own.
func TestBelongs(t *testing.T) {
	full, other := strings.Repeat("a1", 32), strings.Repeat("b2", 32)
	for _, c := range []struct {
		id, cgroup string
		want       answer
	}{
		{full, "0::/docker/" + full + "/init.scope\n", yes},
		{full, "0::/machine.slice/libpod-" + full, yes},
		{"k8s.io:" + full, "1:cpu:/kubepods.slice/cri-containerd-" + full + ".scope\n", yes},
		{"k8s.io:" + full, "1:cpu:/k8s.io/" + other + "\n", no},
		{full, "0::/user.slice\n", perhaps},
		{"default:web", "2:memory:/default/web\n1:cpu:/default/web\n", yes},
		{"default:web", "0::/system.slice/nerdctl-web.scope\n", yes},
		{"default:web", "0::/default/webserver\n", perhaps},
		{"default:c", "1:cpu:/default/db\n", perhaps},
		{"default:web", "0::/docker/" + other + "\n", no},
	} {
		if got := belongs(c.cgroup, c.id); got != c.want {
			t.Errorf("%s in %q: %v, want %v", c.id, c.cgroup, got, c.want)
		}
	}
}

// TestScope: an id is taken apart and put together again, by its runtime alone.
func TestScope(t *testing.T) {
	for _, c := range []struct{ runtime, id, scoped, bare string }{
		{"docker", "abc", "docker", "abc"},
		{"containerd", "k8s.io:abc", "containerd:k8s.io", "abc"},
	} {
		scoped, bare := scope(c.runtime, c.id)
		id, ours := unscope(c.runtime, scoped, bare)
		if scoped != c.scoped || bare != c.bare || id != c.id || !ours {
			t.Errorf("%s of %s is %s of %s, and back %s, %v", c.id, c.runtime, bare, scoped, id, ours)
		}
		if id, ours := unscope("cri", scoped, bare); ours {
			t.Errorf("%s is taken for cri's as %s", c.id, id)
		}
	}
}
