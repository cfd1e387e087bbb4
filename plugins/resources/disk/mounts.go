package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mount is a line of a mountinfo.
type mount struct {
	number uint64 // of the device, as stat tells it
	root   string // which directory of the file system it shows
	point  string // where
	kind   string
	source string
	upper  string // of an overlay, the directory that is written to
}

// parseMounts reads a mountinfo: number, root and mount point are the third to fifth field;
// behind the dash stand the type, the source, and the options of the file system.
func parseMounts(mountinfo string) (all []mount) {
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(rest) < 3 {
			continue
		}
		major, minor, _ := strings.Cut(fields[2], ":")
		a, errA := strconv.ParseUint(major, 10, 32)
		b, errB := strconv.ParseUint(minor, 10, 32)
		if errA != nil || errB != nil {
			continue
		}
		m := mount{
			number: unix.Mkdev(uint32(a), uint32(b)), root: unescaped(fields[3]), point: unescaped(fields[4]),
			kind: rest[0], source: unescaped(rest[1]),
		}
		for option := range strings.SplitSeq(rest[2], ",") {
			if upper, is := strings.CutPrefix(option, "upperdir="); is && m.kind == "overlay" {
				m.upper = unescaped(upper)
			}
		}
		all = append(all, m)
	}
	return all
}

// unescaped turns \040 into a blank, and what else the kernel escapes in the same way.
func unescaped(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// stored reports whether a file system has a device of its own, or is one of the kind that
// spreads over several. Images, which are always full, are not told of.
func (m mount) stored() bool {
	switch m.kind {
	case "squashfs", "iso9660", "erofs":
		return false
	case "zfs":
		return true
	}
	return strings.HasPrefix(m.source, "/dev/")
}

// mounted are the mounts of our own namespace.
func mounted() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	return parseMounts(string(text)), err
}

// most bounds how many file systems of the machine are told of.
const most = 64

// Machine is how full the file systems of the machine are that are on devices, each told
// of once, sorted by where it is mounted.
func Machine() ([]Usage, error) {
	all, err := mounted()
	if err != nil {
		return nil, err
	}
	// The whole file system goes before a part of it that is mounted elsewhere.
	slices.SortStableFunc(all, func(a, b mount) int { return cmp.Compare(len(a.root), len(b.root)) })
	var out []Usage
	told := map[string]bool{}
	for _, m := range all {
		if !m.stored() || len(out) == most {
			continue
		}
		u, err := full(m.point)
		if !strings.HasPrefix(u.Device, "/") { // it spreads over several
			u.Device = m.source
		}
		if err != nil || told[u.Device] || u.number != m.number && unix.Major(m.number) != 0 { // another one is mounted over it
			continue
		}
		told[u.Device], u.Point, u.Type = true, m.point, m.kind
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b Usage) int { return cmp.Compare(a.Point, b.Point) })
	return out, nil
}

// ErrNoLayer: a container has no layer of its own that we can see.
var ErrNoLayer = errors.New("its root is no overlay that is mounted here")

// LayerOf is the directory into which a process writes what it writes to its root: the
// upper one of an overlay. It is taken from our own mounts, which no container can make.
func LayerOf(pid int) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/root/", pid), &st); err != nil {
		return "", err
	}
	all, err := mounted()
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.number == st.Dev && strings.HasPrefix(m.upper, "/") {
			return m.upper, nil
		}
	}
	return "", ErrNoLayer
}
