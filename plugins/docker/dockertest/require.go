package dockertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needed are the commands that an engine and its tests need, with the Debian
// packages that have them.
var needed = []struct{ command, debian string }{
	{"dockerd", "docker.io"},
	{"docker", "docker.io"},
	{"containerd", "docker.io"},
	{"busybox", "busybox-static"},
	{"unshare", "util-linux"},
	{"nsenter", "util-linux"},
	{"ip", "iproute2"},
	{"iptables", "iptables"},
}

// require skips the test where no engine can run. In CI that is a failure: a
// test that never runs proves nothing.
func require(t testing.TB) {
	t.Helper()
	missing := missing()
	switch {
	case missing == "":
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}

// missing says what keeps an engine from running here, "" if nothing does.
func missing() string {
	if os.Geteuid() != 0 {
		return "a Docker Engine for tests needs root"
	}
	for _, n := range needed {
		if _, err := exec.LookPath(n.command); err != nil {
			return "there is no " + n.command + " here; on Debian: apt-get install " + n.debian
		}
	}
	return ""
}

// commands are those of busybox that the image has.
var commands = []string{"sh", "sleep", "ip", "ping", "cat", "ls", "nc", "true", "kill", "trap", "tail", "head", "wget", "httpd"}

// importImage makes the image out of the host's busybox.
func (e *Engine) importImage() {
	e.T.Helper()
	bin := filepath.Join(e.T.TempDir(), "bin")
	busybox, err := exec.LookPath("busybox")
	if err == nil {
		err = os.Mkdir(bin, 0o755)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(busybox)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "busybox"), data, 0o755)
	}
	for _, c := range commands {
		if err == nil {
			err = os.Symlink("busybox", filepath.Join(bin, c))
		}
	}
	if err != nil {
		e.T.Fatal(err)
	}
	tarball := filepath.Join(e.T.TempDir(), "image.tar")
	if out, err := exec.Command("tar", "-C", filepath.Dir(bin), "-cf", tarball, "bin").CombinedOutput(); err != nil {
		e.T.Fatalf("tar: %v: %s", err, out)
	}
	e.Docker("import", tarball, Image)
	if out, err := e.Try("run", "--rm", Image, "true"); err != nil {
		e.T.Fatalf("the image does not run: %v %s%s", err, strings.TrimSpace(out), "; busybox must be static: on Debian: apt-get install busybox-static")
	}
}
