package agent

import (
	"log/slog"
	"net/http"
	"sync"

	"github.com/plumb-net/plumb/plugins/safetext"
)

// recentBytes bounds what is kept of the log in memory.
const recentBytes = 512 << 10

// recent keeps the last lines of the log, for reports.
type recent struct {
	mu    sync.Mutex // guards what follows
	lines [][]byte   // the oldest first
	bytes int
}

// Write takes one line, as handlers of slog write them.
func (r *recent) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := []byte(safetext.URLs(string(line)))
	r.lines, r.bytes = append(r.lines, text), r.bytes+len(text)
	drop := 0
	for ; r.bytes > recentBytes && drop < len(r.lines)-1; drop++ {
		r.bytes -= len(r.lines[drop])
	}
	if drop > 0 {
		clear(r.lines[:drop])
		r.lines = r.lines[drop:]
	}
	return len(line), nil
}

// ServeHTTP writes the lines.
func (r *recent) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	lines := append([][]byte(nil), r.lines...)
	r.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	for _, line := range lines {
		if _, err := w.Write(line); err != nil {
			return
		}
	}
}

// beside makes a handler that hands to another, and keeps.
func (r *recent) beside(to slog.Handler) slog.Handler {
	return slog.NewMultiHandler(to, slog.NewTextHandler(r, &slog.HandlerOptions{Level: slog.LevelDebug}))
}
