package private_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/private"
)

// nobody is somebody else.
const nobody = 65534

// asChild in the environment makes this binary the child of a test: what to do, and where.
const asChild = "PLUMB_PRIVATE_CHILD"

func TestMain(m *testing.M) {
	if what, path, ok := strings.Cut(os.Getenv(asChild), " "); ok {
		child(what, path)
		return
	}
	if os.Geteuid() != 0 {
		fmt.Println("these tests need root: they are about who owns what")
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

var known = private.Known{Files: []string{"ledger"}, More: []string{"lock", "agent.sock"}}

// tree makes files and directories from lines "mode owner path"; a path that ends in
// a slash is a directory, one with "->" a symbolic link.
func tree(t *testing.T, lines ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, l := range lines {
		var mode uint32
		var uid int
		var path string
		if _, err := fmt.Sscanf(l, "%o %d %s", &mode, &uid, &path); err != nil {
			t.Fatal(l, err)
		}
		from, to, link := strings.Cut(path, "->")
		at := filepath.Join(root, from)
		var err error
		switch {
		case link:
			err = os.Symlink(to, at)
		case strings.HasSuffix(path, "/"):
			err = os.Mkdir(at, 0o700)
		default:
			err = os.WriteFile(at, []byte("content"), 0o600)
		}
		if err == nil && !link {
			err = syscall.Chmod(at, mode)
		}
		if err == nil {
			err = os.Lchown(at, uid, 0)
		}
		if err != nil {
			t.Fatal(l, err)
		}
	}
	return root
}

// picture is everything below a directory: mode, owner, content.
func picture(t *testing.T, root string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(root, func(path string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%v %d %s", info.Mode(), info.Sys().(*syscall.Stat_t).Uid, path)
		if info.Mode().IsRegular() {
			text, _ := os.ReadFile(path)
			fmt.Fprintf(&b, " %s", text)
		}
		b.WriteByte('\n')
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestCheck: what is ours, what could be, and what is somebody else's. Nothing is
// changed by the question.
func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		name string
		tree []string
		dir  string
		want string // part of the error, "" for none
	}{
		{"not there", nil, "run", ""},
		{"not there, nor its parents", nil, "a/b/run", ""},
		{"empty", []string{"755 0 run/"}, "run", ""},
		{"ours", []string{"700 0 run/", "600 0 run/ledger", "600 0 run/mine.txt"}, "run", ""},
		{"only what may be there", []string{"700 0 run/", "600 0 run/lock"}, "run", ""},
		{"a directory with the name of a file of ours, as in /run",
			[]string{"755 0 run/", "755 0 run/lock/", "755 0 run/udev/"}, "run", "holds things that are not ours, such as lock: name an empty directory"},
		{"ledger is a directory", []string{"755 0 run/", "755 0 run/ledger/", "755 0 run/x/"}, "run", "not ours"},
		{"ledger is a link", []string{"755 0 run/", "755 0 run/ledger->/etc/passwd", "600 0 run/x"}, "run", "not ours"},
		{"ledger is another user's", []string{"755 0 run/", "600 65534 run/ledger", "600 0 run/x"}, "run", "not ours"},
		{"closed, with things of root's", []string{"700 0 run/", "600 0 run/.bashrc"}, "run", "such as .bashrc"},
		{"another user's", []string{"700 65534 run/", "600 0 run/ledger"}, "run", "belongs to user 65534"},
		{"all may write", []string{"1777 0 run/"}, "run", "others may write to"},
		{"below one where all may rename", []string{"777 0 a/", "700 0 a/run/"}, "a/run", "put anything in the place"},
		{"below one where all may write but not rename", []string{"1777 0 a/", "700 0 a/run/"}, "a/run", ""},
		{"below another user's", []string{"755 65534 a/", "700 0 a/run/"}, "a/run", "belongs to user 65534"},
		{"not there, below another user's", []string{"755 65534 a/"}, "a/b/run", "belongs to user 65534"},
		{"over a link of root's", []string{"755 0 a/", "700 0 a/run/", "777 0 b->a"}, "b/run", ""},
		{"over a link of another user", []string{"755 0 a/", "700 0 a/run/", "777 65534 b->a"}, "b/run", "belongs to user 65534"},
		{"over a link to another user's", []string{"755 65534 a/", "755 0 c/", "777 0 c/b->../a"}, "c/b/run", "belongs to user 65534"},
		{"over a link to itself", []string{"777 0 b->b"}, "b/run", "too many symbolic links"},
		{"a file", []string{"600 0 run"}, "run", "no directory"},
		{"below a file", []string{"600 0 a"}, "a/run", "no directory"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := tree(t, tc.tree...)
			before := picture(t, root)
			err := private.Check(filepath.Join(root, tc.dir), known)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if after := picture(t, root); after != before {
				t.Errorf("before:\n%safter:\n%s", before, after)
			}
		})
	}
}

// TestMake: what we make is closed, what is there keeps its mode or is refused.
func TestMake(t *testing.T) {
	root := tree(t, "755 0 there/", "777 0 open/", "755 65534 theirs/")
	before := picture(t, root)
	for dir, want := range map[string]string{"there": "", "open": "others may write", "theirs": "belongs to user", "theirs/x": "belongs to user"} {
		err := private.Make(filepath.Join(root, dir))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", dir, err, want)
		}
	}
	if after := picture(t, root); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
	if err := private.Make(filepath.Join(root, "new", "run")); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"new", "new/run"} {
		if info, err := os.Stat(filepath.Join(root, dir)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", dir, info, err)
		}
	}
}

// TestLockSparesOthers: a file that is not ours to lock keeps its content.
func TestLockSparesOthers(t *testing.T) {
	for name, lines := range map[string][]string{
		"symbolic link": {"644 0 precious", "777 0 lock->precious"},
		"belongs to":    {"644 65534 lock"},
		"no regular":    {"755 0 lock/"},
	} {
		root := tree(t, lines...)
		before := picture(t, root)
		if l, err := private.Take(filepath.Join(root, "lock")); err == nil || !strings.Contains(err.Error(), name) && !errors.Is(err, syscall.EISDIR) {
			t.Errorf("%s: got %v, %v", name, l, err)
		}
		if after := picture(t, root); after != before {
			t.Errorf("%s\nbefore:\n%safter:\n%s", name, before, after)
		}
	}
	pipe := filepath.Join(t.TempDir(), "lock")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := private.Take(pipe); err == nil || !strings.Contains(err.Error(), "no regular file") {
		t.Errorf("a pipe: %v", err)
	}
	two := tree(t, "600 0 precious")
	if err := os.Link(filepath.Join(two, "precious"), filepath.Join(two, "lock")); err != nil {
		t.Fatal(err)
	}
	if _, err := private.Take(filepath.Join(two, "lock")); err == nil || !strings.Contains(err.Error(), "other names") {
		t.Errorf("a second name of a file: %v", err)
	}
}

// TestLock: one at a time; who has it is named; a lock that its holder is about to
// lose, as a child does between its birth and its program, is waited for.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := private.Take(path)
	if err != nil {
		t.Fatal(err)
	}
	var held *private.Held
	if _, err := private.Take(path); !errors.As(err, &held) || held.PID != os.Getpid() {
		t.Errorf("got %v", err)
	}
	first.Release()
	child, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(child.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	gone := time.AfterFunc(100*time.Millisecond, func() { child.Close() })
	defer gone.Stop()
	again, err := private.Take(path)
	if err != nil {
		t.Fatalf("of one who goes: %v", err)
	}
	again.Release()
}

// TestStaleSocketIsReplaced: that of a dead process. That of a live one, and what is
// no socket, stay.
func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := private.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := private.Listen(path); err == nil || !strings.Contains(err.Error(), "another agent listens there") {
		t.Errorf("a second one: %v", err)
	}
	l.Close()
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := private.Listen(path); err == nil || !strings.Contains(err.Error(), "something else is there") {
		t.Errorf("over a file: %v", err)
	}
	if text, _ := os.ReadFile(path); string(text) != "precious" {
		t.Errorf("the file holds %q", text)
	}
}

// TestDial: nothing is said to a socket at which somebody else listens.
func TestDial(t *testing.T) {
	dir := t.TempDir()
	l, err := private.Listen(filepath.Join(dir, "ours.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := private.Dial(t.Context(), filepath.Join(dir, "ours.sock"))
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	theirs, heard := otherServer(t)
	var stranger *private.Stranger
	if _, err := private.Dial(t.Context(), theirs); !errors.As(err, &stranger) || stranger.UID != nobody || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("got %v", err)
	}
	if got := heard(); got != "heard nothing" {
		t.Errorf("the stranger %s", got)
	}
}

// otherServer is a socket at which another user listens; heard is what that user got.
func otherServer(t *testing.T) (socket string, heard func() string) {
	t.Helper()
	dir := open(t)
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s")
	cmd := asOther(t, "serve", socket)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line := make([]byte, len("ready\n"))
	if _, err := io.ReadFull(out, line); err != nil {
		t.Fatal(err)
	}
	return socket, func() string {
		text, _ := io.ReadAll(out)
		return strings.TrimSpace(string(text))
	}
}

// TestAccept: who connects as another user is not heard, even if somebody has opened
// all modes.
func TestAccept(t *testing.T) {
	dir := open(t)
	socket := filepath.Join(dir, "run", "s")
	l, err := private.Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan int, 1)
	l.Refused = func(uid int, _ error) { refused <- uid }
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("welcome"))
			conn.Close()
		}
	}()
	defer func() { l.Close(); <-ended }()
	ask := func() string {
		out, err := asOther(t, "ask", socket).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	if got := ask(); !strings.Contains(got, "permission denied") {
		t.Errorf("with the modes as they are: %s", got)
	}
	for path, mode := range map[string]os.FileMode{filepath.Dir(socket): 0o755, socket: 0o666} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	if got := ask(); got != `got ""` {
		t.Errorf("with open modes: %s", got)
	}
	if uid := <-refused; uid != nobody {
		t.Errorf("user %d was refused", uid)
	}
	conn, err := private.Dial(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if text, _ := io.ReadAll(conn); string(text) != "welcome" {
		t.Errorf("root itself got %q", text)
	}
}

// open is a directory that others can reach.
func open(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "plumb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// asOther is this binary as another user.
func asOther(t *testing.T, what, path string) *exec.Cmd {
	t.Helper()
	binary := filepath.Join(open(t), "child")
	text, err := os.ReadFile(os.Args[0])
	if err == nil {
		err = os.WriteFile(binary, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, binary)
	cmd.Dir, cmd.Env = "/", []string{asChild + "=" + what + " " + path}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return cmd
}

func child(what, path string) {
	switch what {
	case "serve":
		l, err := net.Listen("unix", path)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("ready")
		conn, err := l.Accept()
		if err != nil {
			fmt.Println(err)
			return
		}
		if text, _ := io.ReadAll(conn); len(text) > 0 {
			fmt.Printf("heard %q\n", text)
			return
		}
		fmt.Println("heard nothing")
	case "ask":
		conn, err := net.Dial("unix", path)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer conn.Close()
		text, _ := io.ReadAll(conn)
		fmt.Printf("got %q\n", text)
	}
}
