package docker

import (
	"testing"
	"time"

	client "github.com/fsouza/go-dockerclient"
)

// TestStatus reads what engines say of the states of containers.
func TestStatus(t *testing.T) {
	for _, c := range []struct {
		text   string
		code   string
		atMost time.Duration
	}{
		{"Up Less than a second", "", 2 * time.Second},
		{"Up 1 second", "", 2 * time.Second},
		{"Up 3 minutes (healthy)", "", 4 * time.Minute},
		{"Up About a minute (Paused)", "", 2 * time.Minute},
		{"Exited (137) About an hour ago", "137", 2 * time.Hour},
		{"Exited (0) 47 hours ago", "0", 48 * time.Hour},
		{"Exited (-1) 2 days ago", "-1", 3 * 24 * time.Hour},
		{"Restarting (1) 5 seconds ago", "1", 6 * time.Second},
		{"Created", "", 0},
		{"Dead", "", 0},
		{"Removal In Progress", "", 0},
		{"", "", 0},
	} {
		if code, atMost := status(c.text); code != c.code || atMost != c.atMost {
			t.Errorf("%q: %q, at most %v, want %q, %v", c.text, code, atMost, c.code, c.atMost)
		}
	}
}

// TestSummary: the digest changes with what an inspect would tell, and not with
// time.
func TestSummary(t *testing.T) {
	now := time.Now()
	line := func(state, status, ip string) client.APIContainers {
		return client.APIContainers{ID: "x", Names: []string{"/web", "/db/link"}, State: state, Status: status,
			Networks: client.NetworkList{Networks: map[string]client.ContainerNetwork{"bridge": {IPAddress: ip, IPPrefixLen: 16}}}}
	}
	base := summary(line("running", "Up 5 seconds", "10.0.0.1"), now)
	if !base.Running || base.Name != "web" || !base.Since.Equal(now.Add(-6*time.Second)) {
		t.Errorf("%+v", base)
	}
	if later := summary(line("running", "Up 2 hours (healthy)", "10.0.0.1"), now); later.Digest != base.Digest {
		t.Errorf("%q became %q with time", base.Digest, later.Digest)
	}
	for _, l := range []client.APIContainers{
		line("running", "Up 5 seconds", "10.0.0.2"),
		line("paused", "Up 5 seconds (Paused)", "10.0.0.1"),
		line("exited", "Exited (1) 5 seconds ago", ""),
	} {
		if s := summary(l, now); s.Digest == base.Digest {
			t.Errorf("%s %s has the digest %q", l.State, l.Status, s.Digest)
		}
	}
	for state, status := range map[string]string{
		"created": "Created", "restarting": "Restarting (1) 5 seconds ago", "removing": "Removal In Progress",
	} {
		if s := summary(line(state, status, ""), now); s.Digest != "" {
			t.Errorf("a list tells not all of what is %s, and its digest is %q", state, s.Digest)
		}
	}
	one, two := summary(line("exited", "Exited (1) 5 seconds ago", ""), now), summary(line("exited", "Exited (2) 5 seconds ago", ""), now)
	if one.Digest == two.Digest {
		t.Error("the exit code is not in the digest")
	}
}
