package agent

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/openfiles"
)

// machineHealth tells on what the agent runs. It is read each time: kernels are
// patched, memory and processors are plugged in.
func machineHealth(started time.Time) models.Health {
	h := models.Health{Name: "machine", State: "ok", Since: started, Details: map[string]string{
		"processors": strconv.Itoa(runtime.NumCPU()),
		"arch":       runtime.GOARCH,
	}}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Details["kernel"] = text(u.Release[:])
		h.Details["host"] = text(u.Nodename[:])
	}
	if name := field("/etc/os-release", "PRETTY_NAME="); name != "" {
		h.Details["system"] = strings.Trim(name, `"`)
	}
	if kib, err := strconv.ParseUint(strings.TrimSuffix(field("/proc/meminfo", "MemTotal:"), " kB"), 10, 64); err == nil {
		h.Details["memory"] = fmt.Sprintf("%.1f GiB", float64(kib)/(1<<20))
	}
	if files, err := openfiles.Read(); err == nil {
		h.Details["open_files"] = strconv.Itoa(files.Open) + " of " + strconv.Itoa(files.Limit)
	}
	if caps := field("/proc/self/status", "CapEff:"); caps != "" {
		h.Details["capabilities"] = caps
	}
	h.Reason = fmt.Sprintf("%s, kernel %s, %s processors, %s", h.Details["system"], h.Details["kernel"], h.Details["processors"], h.Details["memory"])
	return h
}

func text(b []byte) string {
	b, _, _ = bytes.Cut(b, []byte{0})
	return string(b)
}

// field is the rest of the first line of a file that begins with a word.
func field(path, word string) string {
	data, _ := os.ReadFile(path)
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, word); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
