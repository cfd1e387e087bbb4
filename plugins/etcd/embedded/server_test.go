package embedded

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// startHere starts a server of this process in directories of its own.
func startHere(t *testing.T, dir string) (*Server, *clientv3.Client) {
	t.Helper()
	s, err := Start(t.Context(), Config{Dir: filepath.Join(dir, "state", "etcd"), Socket: filepath.Join(dir, "run", "etcd.sock")})
	if err != nil {
		t.Fatal(err)
	}
	return s, clientOf(t, filepath.Join(dir, "run", "etcd.sock"))
}

// clientOf is a client of the server at a socket.
func clientOf(t testing.TB, socket string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop(), MaxCallSendMsgSize: math.MaxInt32})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// etcdctl runs Debian's client 3.4 on the socket.
func etcdctl(t *testing.T, dir, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), needEtcdctl(t), args...)
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=unix://"+filepath.Join(dir, "run", "etcd.sock"))
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("etcdctl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func needEtcdctl(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("etcdctl")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("etcdctl is missing: apt-get install etcd-client")
		}
		t.Skip("etcdctl is missing: apt-get install etcd-client")
	}
	return path
}

func TestSocketAndDirectoryAreClosedToOthers(t *testing.T) {
	dir := t.TempDir()
	s, _ := startHere(t, dir)
	defer s.Close()
	for path, want := range map[string]os.FileMode{
		"run": 0o700, "run/etcd.sock": 0o600, "state/etcd": 0o700, "state/etcd/member": 0o700,
	} {
		info, err := os.Stat(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
	}
}

// The socket is the only thing that this process listens on.
func TestNothingElseListens(t *testing.T) {
	dir := t.TempDir()
	s, _ := startHere(t, dir)
	defer s.Close()
	mine := openSockets(t)
	var found []string
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6", "unix"} {
		for _, line := range procNet(t, table) {
			f := strings.Fields(line)
			switch {
			case table == "unix" && len(f) >= 7 && f[3] == "00010000" && mine[f[6]]: // accepts connections
				found = append(found, "unix "+strings.Join(f[7:], " "))
			case table != "unix" && len(f) > 9 && (f[3] == "0A" || f[3] == "07") && mine[f[9]]:
				found = append(found, table+" "+f[1])
			}
		}
	}
	want := "unix " + filepath.Join(dir, "run", "etcd.sock")
	if len(found) != 1 || found[0] != want {
		t.Errorf("listening: %q, want only %q", found, want)
	}
}

// openSockets are the inodes of this process's sockets.
func openSockets(t *testing.T) map[string]bool {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	inodes := map[string]bool{}
	for _, fd := range fds {
		link, _ := os.Readlink("/proc/self/fd/" + fd.Name())
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			inodes[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return inodes
}

func procNet(t *testing.T, table string) []string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/net/" + table)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(data)), "\n")[1:]
}

func TestDebianEtcdctlWorksOnTheSocket(t *testing.T) {
	dir := t.TempDir()
	s, kv := startHere(t, dir)
	defer s.Close()

	etcdctl(t, dir, "", "put", "/plumb/h/config/interface/web", `{"dummy":{}}`)
	if got, err := kv.Get(t.Context(), "/plumb/h/config/interface/web"); err != nil || got.Count != 1 || string(got.Kvs[0].Value) != `{"dummy":{}}` {
		t.Errorf("the put of etcdctl is not there: %v %v", got, err)
	}
	if _, err := kv.Put(t.Context(), "/plumb/h/config/route/r", "{}"); err != nil {
		t.Fatal(err)
	}
	if got := etcdctl(t, dir, "", "get", "--prefix", "--keys-only", "/plumb/"); !strings.Contains(got, "interface/web") || !strings.Contains(got, "route/r") {
		t.Errorf("get --prefix says %q", got)
	}
	if got := etcdctl(t, dir, "mod(\"a\") = \"0\"\n\nput a 1\nput b 2\n\n\n", "txn"); !strings.Contains(got, "SUCCESS") {
		t.Errorf("txn says %q", got)
	}
	if got := etcdctl(t, dir, "", "endpoint", "health"); !strings.Contains(got, "is healthy") {
		t.Errorf("endpoint health says %q", got)
	}
	if got := etcdctl(t, dir, "", "endpoint", "status", "-w", "json"); !strings.Contains(got, `"version":"3.7`) {
		t.Errorf("endpoint status says %q", got)
	}
	if got := etcdctl(t, dir, "", "member", "list"); !strings.Contains(got, "unix://"+dir) {
		t.Errorf("member list says %q", got)
	}
	if got := etcdctl(t, dir, "", "alarm", "list"); got != "" {
		t.Errorf("alarm list says %q", got)
	}
	etcdctl(t, dir, "", "del", "--prefix", "/plumb/")
	etcdctl(t, dir, "", "defrag")
}

// watcher starts `etcdctl watch` and returns when it watches.
func watcher(t *testing.T, dir string, kv *clientv3.Client) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(needEtcdctl(t), "watch", "w")
	cmd.Env = append(os.Environ(), "ETCDCTL_API=3", "ETCDCTL_ENDPOINTS=unix://"+filepath.Join(dir, "run", "etcd.sock"))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			lines <- sc.Text()
		}
	}()
	for n := 0; ; n++ {
		if _, err := kv.Put(t.Context(), "w", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		select {
		case <-lines:
			go func() {
				for range lines { // drain until the end
				}
			}()
			return cmd
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func TestStopsAtOnceWithAClientThatWatches(t *testing.T) {
	dir := t.TempDir()
	s, kv := startHere(t, dir)
	cmd := watcher(t, dir, kv)
	begin := time.Now()
	s.Close()
	if took := time.Since(begin); took > time.Second {
		t.Errorf("stopping took %s", took)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is not closed")
	}
	cmd.Process.Kill()
	cmd.Wait()

	s, kv = startHere(t, dir)
	defer s.Close()
	if got, err := kv.Get(t.Context(), "w"); err != nil || got.Count != 1 {
		t.Errorf("the data did not survive: %v %v", got, err)
	}
}

func TestAnApplyOfTenThousandKeysIsOneTransaction(t *testing.T) {
	s, kv := startHere(t, t.TempDir())
	defer s.Close()
	ops := make([]clientv3.Op, MaxTxnOps)
	for i := range ops {
		ops[i] = clientv3.OpPut(fmt.Sprintf("k%05d", i), strings.Repeat("x", 800))
	}
	resp, err := kv.Txn(t.Context()).Then(ops...).Commit()
	// Within five seconds, or etcd answers before it has done it: with the race
	// detector on a busy machine it may take longer.
	for tries := 0; err != nil && strings.Contains(err.Error(), "request timed out") && tries < 5; tries++ {
		resp, err = kv.Txn(t.Context()).Then(ops...).Commit()
	}
	if err != nil || !resp.Succeeded {
		t.Fatal(resp, err)
	}
}

func TestAFullStoreRaisesAnAlarm(t *testing.T) {
	dir := t.TempDir()
	s, err := Start(t.Context(), Config{Dir: filepath.Join(dir, "etcd"), Socket: filepath.Join(dir, "run", "s"), QuotaBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	kv := clientOf(t, filepath.Join(dir, "run", "s"))
	for i := 0; err == nil; i++ {
		_, err = kv.Put(t.Context(), fmt.Sprint(i), strings.Repeat("x", 100<<10))
	}
	st, err := kv.Status(t.Context(), "unix://"+filepath.Join(dir, "run", "s"))
	if err != nil || !strings.Contains(fmt.Sprint(st.Errors), "NOSPACE") {
		t.Errorf("status says %v, %v", st.Errors, err)
	}
}

func TestBadPlacesAreRefusedWithAHint(t *testing.T) {
	dir := t.TempDir()
	s, _ := startHere(t, dir)
	defer s.Close()
	shared := filepath.Join(dir, "shared")
	if err := errors.Join(os.Mkdir(shared, 0o755), os.Chmod(shared, 0o777)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "file"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "file", "s"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ data, socket, want string }{
		"long path":     {"d1", filepath.Join(dir, strings.Repeat("l", 100), "etcd.sock"), "choose a shorter --run-dir"},
		"relative":      {"d2", "run/etcd.sock", "must be absolute"},
		"shared":        {"d3", filepath.Join(shared, "etcd.sock"), "others may write to"},
		"a file":        {"d4", filepath.Join(dir, "file", "s"), "something else is there"},
		"a live server": {"d5", filepath.Join(dir, "run", "etcd.sock"), "another --run-dir"},
		"data in use":   {"state/etcd", filepath.Join(dir, "run2", "etcd.sock"), "different --state-dir"},
	} {
		_, err := Start(context.Background(), Config{Dir: filepath.Join(dir, tc.data), Socket: tc.socket})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if info, _ := os.Stat(shared); info.Mode().Perm() != 0o777 {
		t.Errorf("the directory of others was closed: %04o", info.Mode().Perm())
	}
}

func TestALeftSocketIsReplacedAndADirectoryKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(run, "etcd.sock")})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	s, kv := startHere(t, dir)
	defer s.Close()
	if _, err := kv.Put(t.Context(), "a", "b"); err != nil {
		t.Error(err)
	}
	if info, _ := os.Stat(run); info.Mode().Perm() != 0o755 {
		t.Errorf("the run directory has mode %04o", info.Mode().Perm())
	}
}

func TestItIsSilentWithoutALogger(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr := os.Stderr
	os.Stderr = w
	s, _ := startHere(t, t.TempDir())
	s.Close()
	os.Stderr = stderr
	w.Close()
	var out bytes.Buffer
	out.ReadFrom(r)
	if out.Len() > 0 {
		t.Errorf("it said %q", out.String())
	}
}
