package agent

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
		{"log-level: loud\n", `log-level: level "loud": want debug, info, warn or error`},
		{"log-level: info,ectd=debug\n", `log-level: unknown part "ectd"; known are agent, announcer, api, cni, `},
		{"log-format: xml\n", `log-format "xml": want text or json`},
		{"otlp: collector:4317\n", `otlp "collector:4317": want http://HOST:PORT or https://HOST:PORT of a collector`},
		{"intent: /does/not/exist\n", "intent /does/not/exist: want a directory that is there"},
		{"history: much\n", `history "much": want a number of MiB from 0 to 1024`},
		{"resources: 10ms\n", `resources "10ms": want off, or a time from 1s to 1m`},
		{"resources-depth: deep\n", `resources-depth "deep": want a number from 0 to 8`},
		{"resources-depth: 9\n", `resources-depth "9": want a number from 0 to 8`},
		{"label: [x]\n", "label: want a text"},
		{"label: {\n", "config "},
		{"containerd: c.sock\n", `containerd at "c.sock": want the path of its socket, from /, or "off"`},
		{"cri: crio\n", `the CRI engine at "crio": want the path of its socket, from /, or "off"`},
		{"docker: ftp://x\n", `docker at ftp://x`},
		{"listen: 192.0.2.1\n", `listen "192.0.2.1": want ADDRESS:PORT, such as 192.0.2.1:7443, or :7443 for all addresses`},
		{"listen: :https\ntls-cert: c\ntls-key: k\ntokens: t\n", `listen ":https": want ADDRESS:PORT`},
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

// No configuration serves the API over the network without TLS, or to those who are not
// known: of all combinations of settings only these can be loaded.
func TestNoListenerWithoutAuthentication(t *testing.T) {
	names := []string{"listen", "tls-cert", "tls-key", "client-ca", "tokens"}
	for set := range 1 << len(names) {
		flags, have := map[string]string{"label": "x"}, map[string]bool{}
		for i, name := range names {
			if have[name] = set&(1<<i) != 0; have[name] {
				flags[name] = map[bool]string{true: "127.0.0.1:7443", false: "/file"}[name == "listen"]
			}
		}
		var want string
		switch {
		case set == 0:
		case !have["listen"]:
			want = "say where with listen, or leave them out"
		case !have["tls-cert"] || !have["tls-key"]:
			want = "listen needs tls-cert and tls-key"
		case !have["client-ca"] && !have["tokens"]:
			want = "listen needs client-ca, tokens, or both"
		}
		_, err := Load("", env(), flags)
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v; want %q", flags, err, want)
		}
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
	labels := filepath.Join(t.TempDir(), "locks")
	takeLocks := func(c Config) (*locks, error) { return takeLocks(c, labels, slog.New(slog.DiscardHandler)) }
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

// A directory that is not ours is refused and left as it is: above all /run, which has
// a directory named lock.
func TestDirectoriesOfOthersStay(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"like /run": {func(dir string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, "lock"), 0o755), os.Mkdir(filepath.Join(dir, "udev"), 0o755), os.Chmod(dir, 0o755))
		}, "not ours, such as lock: name an empty directory, or one that is not there yet"},
		"with a directory called lock": {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "lock"), 0o755) }, "not ours, such as lock"},
		"a file system of its own":     {func(dir string) error { return os.MkdirAll(filepath.Join(dir, "lost+found"), 0o755) }, ""},
		"closed, with things of root's": {func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "theirs"), nil, 0o600))
		}, "not ours, such as theirs"},
		"of another user": {func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 65534, 65534)) }, "belongs to user 65534"},
		"open":            {func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o1777)) }, "others may write to"},
		"empty":           {func(dir string) error { return os.Mkdir(dir, 0o755) }, ""},
	} {
		for _, flag := range []string{"--run-dir", "--state-dir"} {
			c, theirs := Default(), filepath.Join(t.TempDir(), "theirs")
			c.Label, c.RunDir, c.StateDir = "test", filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "state")
			if err := tc.make(theirs); err != nil {
				t.Fatal(err)
			}
			*map[string]*string{"--run-dir": &c.RunDir, "--state-dir": &c.StateDir}[flag] = theirs
			before := look(t, theirs)
			l, err := takeLocks(c, filepath.Join(t.TempDir(), "locks"), slog.New(slog.DiscardHandler))
			if err == nil {
				l.release()
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), flag+": ") || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s as %s: %v, want %q", name, flag, err, tc.want)
			}
			after := look(t, theirs)
			if tc.want == "" { // the lock is new
				after = strings.Replace(after, "\nlock\n", "\n", 1)
			}
			if after != before {
				t.Errorf("%s as %s: it was\n%sand is\n%s", name, flag, before, after)
			}
		}
	}
}

// look lists a directory with its mode, owner and content.
func look(t *testing.T, dir string) string {
	t.Helper()
	info, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %d\n", info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		text += e.Name() + "\n"
	}
	return text
}

// One of the directories may be in the other, also at the second start.
func TestDirectoriesInEachOther(t *testing.T) {
	for _, in := range []string{"run", "state"} {
		c, dir := Default(), filepath.Join(t.TempDir(), "plumb")
		c.Label, c.RunDir, c.StateDir = "test", dir, filepath.Join(dir, "state")
		if in == "run" {
			c.StateDir, c.RunDir = dir, filepath.Join(dir, "run")
		}
		labels := filepath.Join(t.TempDir(), "locks")
		for range 2 {
			l, err := takeLocks(c, labels, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatalf("%s within the other: %v", in, err)
			}
			l.release()
		}
	}
}
