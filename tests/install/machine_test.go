package install

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// patience is how long anything may take that has no bound of its own.
const patience = 30 * time.Second

// machine runs systemd and nothing else; nothing of Plumb is installed.
type machine struct {
	t   *testing.T
	pid int // of process 1
}

// boot starts a machine that ends with the test.
func boot(t *testing.T) machine {
	t.Helper()
	need(t, "/lib/systemd/systemd", "unshare", "nsenter", "dpkg", "nft", "busybox", "ip")
	cmd := exec.Command("./machine.sh")
	end, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var story strings.Builder
	cmd.Stderr = &story
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end.Close()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the machine said\n%s", story.String())
		}
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		end.Close()
		_ = cmd.Wait()
		t.Fatalf("the machine does not start: %s", story.String())
	}
	m := machine{t, pid}
	m.await("systemctl is-system-running", "running")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try("journalctl --no-pager --output cat --lines 40 --grep level= --unit plumb-agent")
			t.Logf("the agent said\n%s", out)
		}
	})
	return m
}

// need ends a test that lacks what it cannot bring: with a failure in CI, which has it, and
// as skipped elsewhere.
func need(t *testing.T, programs ...string) {
	t.Helper()
	netlinktest.Root(t)
	for _, p := range programs {
		_, err := exec.LookPath(p)
		switch {
		case err == nil:
		case os.Getenv("CI") == "true":
			t.Fatalf("%s is missing: .ci/prepare", p)
		default:
			t.Skipf("%s is missing: .ci/prepare", p)
		}
	}
}

// try runs a command line in the machine.
func (m machine) try(line string) (string, error) {
	cmd := exec.Command("nsenter", "--target", strconv.Itoa(m.pid), "--all", "--",
		"env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND=noninteractive", "sh", "-c", line)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run is try for what must succeed.
func (m machine) run(line string) string {
	m.t.Helper()
	out, err := m.try(line)
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// expect checks what a command line prints, whether it fails or not.
func (m machine) expect(line, want string) {
	m.t.Helper()
	if got, _ := m.try(line); got != want {
		m.t.Errorf("%s: got %q, want %q", line, got, want)
	}
}

// await is expect for what comes about.
func (m machine) await(line, want string) {
	m.t.Helper()
	var got string
	for until := time.Now().Add(patience); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if got, _ = m.try(line); got == want {
			return
		}
	}
	m.t.Fatalf("%s: got %q and not %q within %v", line, got, want, patience)
}

// file is the path by which this process knows one of the machine.
func (m machine) file(path string) string { return fmt.Sprintf("/proc/%d/root%s", m.pid, path) }

// ask connects to a socket file of the machine and reads what is said there.
func (m machine) ask(socket string) (string, error) {
	conn, err := net.Dial("unix", m.file(socket))
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(patience))
	said, err := io.ReadAll(conn)
	return string(said), err
}

func (m machine) write(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(m.file(path), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// install installs a package as dpkg does.
func (m machine) install(deb string) {
	m.t.Helper()
	data, err := os.ReadFile(deb)
	if err != nil {
		m.t.Fatal(err)
	}
	m.write("/tmp/plumb.deb", string(data))
	m.run("dpkg -i /tmp/plumb.deb")
}

// The packages are built once for all tests, into a directory that goes with them.
var packages struct {
	sync.Mutex
	dir   string
	built map[string]string
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "plumb-install-")
	if err != nil {
		panic(err)
	}
	packages.dir, packages.built = dir, map[string]string{}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// deb is the package of a version, made by make deb.
func deb(t *testing.T, version string) string {
	t.Helper()
	need(t, "make", "dpkg-deb")
	packages.Lock()
	defer packages.Unlock()
	if packages.built[version] == "" {
		cmd := exec.Command("make", "deb", "VERSION="+version, "BIN="+packages.dir)
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), "MAKEFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("make deb: %v\n%s", err, out)
		}
		made, _ := filepath.Glob(filepath.Join(packages.dir, "plumb_"+version+"_*.deb"))
		if len(made) != 1 {
			t.Fatalf("make deb made %q", made)
		}
		packages.built[version] = made[0]
	}
	return packages.built[version]
}
