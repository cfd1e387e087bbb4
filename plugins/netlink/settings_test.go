package netlink_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// openSettings opens the settings of links, and the settings that write them, and returns the files by their path
// below /proc/sys. The test reads all of them hundreds of times, which is five times faster with open files.
func openSettings(t *testing.T) map[string]*os.File {
	files := map[string]*os.File{}
	for _, pattern := range []string{"ipv4/ip_forward", "ipv4/conf/*/*", "ipv6/conf/*/*", "ipv4/neigh/*/*", "ipv6/neigh/*/*", "ipv6/route/*"} {
		paths, _ := filepath.Glob("/proc/sys/net/" + pattern)
		for _, path := range paths {
			file, err := os.Open(path)
			if err != nil {
				continue // write-only
			}
			t.Cleanup(func() { _ = file.Close() })
			files[strings.TrimPrefix(path, "/proc/sys/")] = file
		}
	}
	return files
}

func readSettings(files map[string]*os.File) map[string]string {
	is, text := map[string]string{}, make([]byte, 4096)
	for place, file := range files {
		if n, err := file.ReadAt(text, 0); err == nil || errors.Is(err, io.EOF) {
			is[place] = strings.TrimSpace(string(text[:n]))
		}
	}
	return is
}

// TestSettingWrites writes the settings of all, default and one link, and looks what else the kernel
// has written. It is as [kernel.SettingWrites] and [kernel.SettingName] say.
func TestSettingWrites(t *testing.T) {
	n := netlinktest.New(t)
	n.IPv6(t)
	n.IP(t, "link add name a type bridge")
	n.IP(t, "link add name b type bridge")
	links := []kernel.Link{{Name: "lo"}, {Name: "a"}, {Name: "b"}}
	if err := netlinktest.Inside(n.Path, func() error {
		files := openSettings(t)
		places := slices.DeleteFunc(slices.Sorted(maps.Keys(readSettings(files))), func(place string) bool {
			parts := strings.Split(place, "/") // those of one link stand for the others
			return len(parts) == 5 && (parts[3] == "b" || parts[3] == "lo")
		})
		if len(places) < 150 {
			return fmt.Errorf("only %d settings", len(places))
		}
		for _, place := range places {
			writeAndCompare(t, place, links, files)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func writeAndCompare(t *testing.T, place string, links []kernel.Link, files map[string]*os.File) {
	before := readSettings(files)
	number, err := strconv.Atoi(before[place])
	if err != nil {
		return
	}
	value := strconv.Itoa(map[bool]int{true: 1, false: 0}[number == 0])
	if os.WriteFile("/proc/sys/"+place, []byte(value), 0) != nil {
		return // of another kind, or read-only
	}
	after := readSettings(files)
	_ = os.WriteFile("/proc/sys/"+place, []byte(before[place]), 0)
	written, may := map[string]string{}, map[string]string{}
	for _, w := range kernel.SettingWrites(place) {
		for to := range w.Places(links) {
			if _, there := before[to]; !there {
				continue
			}
			if may[to] = w.Gets(after[place]); !w.Untouched {
				written[to] = may[to]
			}
		}
	}
	for _, to := range slices.Sorted(maps.Keys(after)) {
		want, told := written[to]
		if told && after[to] != want {
			t.Errorf("%s=%s: %s is %s, want %s", place, after[place], to, after[to], want)
		}
		changed := to != place && after[to] != before[to] && kernel.SettingName(to) != kernel.SettingName(place)
		if changed && !told && after[to] != may[to] && kernel.SettingName(to) == to {
			t.Errorf("%s=%s: %s was %s and is %s, of which the table does not tell", place, after[place], to, before[to], after[to])
		}
	}
}
