package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDeviceFile: each block device has a file with its numbers.
func TestDeviceFile(t *testing.T) {
	all, err := os.ReadDir("/sys/dev/block")
	if err != nil {
		t.Skip(err)
	}
	for _, d := range all {
		var st syscall.Stat_t
		file := DeviceFile(d.Name())
		if !strings.HasPrefix(file, "/dev/") {
			t.Errorf("%s has %s", d.Name(), file)
		} else if err := syscall.Stat(file, &st); err == nil && fmt.Sprintf("%d:%d", st.Rdev>>8, st.Rdev&0xff) != d.Name() && st.Rdev < 1<<16 {
			t.Errorf("%s is %s", file, d.Name())
		}
	}
	if got := DeviceFile("4095:7"); got != "4095:7" {
		t.Error(got)
	}
}

// TestMounts: what the kernel says of mounts is understood.
func TestMounts(t *testing.T) {
	for _, tc := range []struct{ line, want string }{
		{`27 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard`, "fe00 / / ext4 /dev/vda  stored"},
		{`43 27 8:17 /a\040b /mnt/a\040b rw shared:2 - xfs /dev/sdb1 rw`, "811 /a b /mnt/a b xfs /dev/sdb1  stored"},
		{`47 43 0:39 / /m rw - overlay overlay rw,lowerdir=/l:/k,upperdir=/var/a\054b/diff,workdir=/w`, "27 / /m overlay overlay /var/a,b/diff "},
		{`48 43 0:40 / /x rw - tmpfs upperdir=/evil rw,upperdir=/evil`, "28 / /x tmpfs upperdir=/evil  "},
		{`49 43 7:1 / /snap ro - squashfs /dev/loop1 ro`, "701 / /snap squashfs /dev/loop1  "},
		{`50 43 0:41 / /tank rw - zfs tank/data rw,xattr`, "29 / /tank zfs tank/data  stored"},
		{`51 43 x:41 / /tank rw - zfs tank/data rw`, ""},
		{`51 43 0:41 / /tank`, ""},
	} {
		got := ""
		for _, m := range parseMounts(tc.line + "\n") {
			got = fmt.Sprintf("%x %s %s %s %s %s ", m.number, m.root, m.point, m.kind, m.source, m.upper)
			if m.stored() {
				got += "stored"
			}
		}
		if got != tc.want {
			t.Errorf("%s\nis  %q\nnot %q", tc.line, got, tc.want)
		}
	}
}

// TestMachine: file systems are as large and as full as df says.
func TestMachine(t *testing.T) {
	all, err := Machine()
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]bool{}
	for _, u := range all {
		if told[u.Device] || u.Point == "" || u.Type == "" {
			t.Errorf("%+v", u)
		}
		told[u.Device] = true
		out, err := exec.Command("df", "--block-size=1", "--output=size,used,itotal", u.Point).Output()
		if err != nil {
			t.Fatal(err)
		}
		f := strings.Fields(strings.ReplaceAll(string(out), "-", "0"))
		size, used, inodes := parsed(t, f[len(f)-3]), parsed(t, f[len(f)-2]), parsed(t, f[len(f)-1])
		if u.Capacity != size || u.Inodes != inodes || max(u.Used, used)-min(u.Used, used) > size/20 { // others write as well
			t.Errorf("%+v; df says %d of %d, %d inodes", u, used, size, inodes)
		}
	}
}

func parsed(t *testing.T, s string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tree is a directory with files, links of both kinds, and a link to the outside.
func tree(t *testing.T) string {
	dir := t.TempDir()
	for i := range 700 {
		sub := filepath.Join(dir, fmt.Sprint(i%7), fmt.Sprint(i%5))
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), make([]byte, 10*i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, err := range []error{
		os.Link(filepath.Join(dir, "0/0/35"), filepath.Join(dir, "again")), os.Symlink("/", filepath.Join(dir, "outside")),
		os.Truncate(filepath.Join(dir, "1/1/1"), 1<<40), // a hole takes nothing
		syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestWalk: a directory takes as much as du says. What it costs is spread over time, and it
// ends when nobody wants it any more.
func TestWalk(t *testing.T) {
	dir := tree(t)
	du := func(more ...string) uint64 {
		out, err := exec.Command("du", append(more, "-s", dir)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return parsed(t, strings.Fields(string(out))[0])
	}
	var rested time.Duration
	w := newWalker(t.Context(), mostFiles, deepest)
	w.rest = func(d time.Duration) { rested += d }
	began := time.Now()
	u, err := w.walk(dir)
	took := time.Since(began)
	if err != nil || u.Used != du("--block-size=1") || u.InodesUsed != du("--inodes") || u.AtLeast {
		t.Errorf("%+v, %v; du says %d in %d", u, err, du("--block-size=1"), du("--inodes"))
	}
	if u.Capacity == 0 || u.Device == "" {
		t.Errorf("of which file system: %+v", u)
	}
	if rested < took { // two whole bunches, of hardly three
		t.Errorf("it took %v, and rested %v", took, rested)
	}

	ctx, cancel := context.WithCancel(t.Context())
	w = newWalker(ctx, mostFiles, deepest)
	w.rest = func(time.Duration) { cancel() }
	if _, err := w.walk(dir); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for name, w := range map[string]*walker{"100 files": newWalker(t.Context(), 100, deepest), "a level": newWalker(t.Context(), mostFiles, 0)} {
		if u, err := w.walk(dir); err != nil || !u.AtLeast || u.InodesUsed > 101 {
			t.Errorf("bounded to %s: %+v, %v", name, u, err)
		}
	}
	if _, err := Walk(t.Context(), filepath.Join(dir, "outside")); err == nil {
		t.Error("a link was followed")
	}
}

// TestLayerOf: who has no overlay of its own has no layer.
func TestLayerOf(t *testing.T) {
	if dir, err := LayerOf(os.Getpid()); err == nil && dir == "/" {
		t.Errorf("our layer is %s", dir)
	}
	if dir, err := LayerOf(1 << 30); err == nil {
		t.Errorf("a process that is not there writes to %s", dir)
	}
}
