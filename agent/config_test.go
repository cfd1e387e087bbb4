package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == name {
				return v, true
			}
		}
		return "", false
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plumb.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// A flag is stronger than the environment, which is stronger than the file.
func TestLoadPrecedence(t *testing.T) {
	file := write(t, "label: from-file\nlog-level: debug\netcd: [http://a:1, http://b:2]\nrun-dir: /file\n")
	c, err := Load(file, env("PLUMB_LABEL=from-env", "PLUMB_RUN_DIR=/env"), map[string]string{"run-dir": "/flag"})
	if err != nil {
		t.Fatal(err)
	}
	if c.Label != "from-env" || c.RunDir != "/flag" || c.LogLevel != "debug" || len(c.Etcd) != 2 {
		t.Errorf("got %+v", c)
	}
}

func TestLabelDefaults(t *testing.T) {
	for _, tc := range []struct{ env, want string }{
		{"PLUMB_LABEL=one", "one"},
		{"MICROSERVICE_LABEL=two", "two"},
	} {
		if c, err := Load("", env(tc.env), nil); err != nil || c.Label != tc.want {
			t.Errorf("%s: label %q, %v; want %q", tc.env, c.Label, err, tc.want)
		}
	}
	host, _ := os.Hostname()
	if c, err := Load("", env(), nil); err != nil || c.Label != host {
		t.Errorf("label %q, %v; want the host name %q", c.Label, err, host)
	}
}

// Errors name the file and line, the setting, and what would be right.
func TestBadConfig(t *testing.T) {
	for _, tc := range []struct{ text, want string }{
		{"labl: x\n", ":1: labl: there is no such setting; did you mean label?"},
		{"label: 'a b'\n", `label "a b": want 1 to 63 letters`},
		{"log-level: loud\n", `log-level "loud": want debug, info, warn or error`},
		{"intent: /does/not/exist\n", "intent /does/not/exist: want a directory that is there"},
		{"history: much\n", `history "much": want a number of MiB from 0 to 1024`},
		{"label: [x]\n", "label: want a text"},
		{"label: {\n", "config "},
		{"containerd: c.sock\n", `containerd at "c.sock": want the path of its socket, from /, or "off"`},
		{"cri: crio\n", `the CRI engine at "crio": want the path of its socket, from /, or "off"`},
		{"docker: ftp://x\n", `docker at ftp://x`},
	} {
		_, err := Load(write(t, tc.text), env(), nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: error %v; want %q", tc.text, err, tc.want)
		}
	}
	if _, err := Load("/does/not/exist.yaml", env(), nil); err == nil {
		t.Error("a missing file was no error")
	}
}

// What --print-config prints sets the same configuration again.
func TestPrintedConfigRoundTrips(t *testing.T) {
	c, err := Load("", env("PLUMB_LABEL=x", "PLUMB_ETCD=http://a:1,http://b:2"), nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Load(write(t, c.YAML()), env(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if again.YAML() != c.YAML() {
		t.Errorf("got\n%s\nwant\n%s", again.YAML(), c.YAML())
	}
}

// One state directory and one label serve one agent at a time.
func TestLocks(t *testing.T) {
	c := Default()
	c.Label = "lock-test-" + filepath.Base(t.TempDir())
	c.RunDir, c.StateDir = filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "state")
	first, err := takeLocks(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeLocks(c); err == nil || !strings.Contains(err.Error(), "another plumb-agent") {
		t.Errorf("a second agent on the same directory: %v", err)
	}
	other := c
	other.StateDir = filepath.Join(t.TempDir(), "other")
	if _, err := takeLocks(other); err == nil || !strings.Contains(err.Error(), "label "+c.Label) {
		t.Errorf("a second agent with the same label: %v", err)
	}
	first.release()
	again, err := takeLocks(c)
	if err != nil {
		t.Fatalf("after the first has gone: %v", err)
	}
	again.release()
	for _, dir := range []string{c.RunDir, c.StateDir} {
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o700 {
			t.Errorf("%s: mode %v, %v; want 0700", dir, st.Mode(), err)
		}
	}
}

// A directory of somebody else's is refused and left as it is.
func TestPrivateDirSparesOthers(t *testing.T) {
	theirs := t.TempDir()
	if err := os.Chmod(theirs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(theirs, "theirs"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := privateDir(theirs); err == nil || !strings.Contains(err.Error(), "not ours") {
		t.Errorf("a directory of somebody else's: %v", err)
	}
	if st, _ := os.Stat(theirs); st.Mode().Perm() != 0o755 {
		t.Errorf("its mode became %04o", st.Mode().Perm())
	}
}
