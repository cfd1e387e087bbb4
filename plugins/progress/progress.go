// Package progress shows on a terminal how far something is, in one line that is drawn
// again and again and is gone at the end.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/plumb-net/plumb/plugins/safetext"
)

const (
	// Delay is for how long nothing is shown: what is quick needs no progress.
	Delay = 500 * time.Millisecond
	// pace is how often the line is drawn at most.
	pace = 200 * time.Millisecond
	// usual is the width of a terminal that does not tell it.
	usual = 80
)

// Terminal is where a line can be drawn again.
type Terminal struct {
	To    io.Writer
	Width func() int // in characters
}

// Of is the terminal that a file is; nil if it is none, or can only be appended to. term
// is the variable TERM.
func Of(f *os.File, term string) *Terminal {
	if _, err := size(f); err != nil || term == "dumb" {
		return nil
	}
	return &Terminal{To: f, Width: func() int {
		if w, err := size(f); err == nil && w > 0 {
			return w
		}
		return usual
	}}
}

func size(f *os.File) (width int, err error) {
	w, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, err
	}
	return int(w.Col), nil
}

// Line is a line that is drawn. A nil Line draws nothing.
type Line struct {
	at      *Terminal
	started time.Time
	end     chan struct{}
	mu      sync.Mutex // guards what follows
	shown   string
	ended   bool
}

// Start draws what show returns, its most important part first; parts that the line has
// no room for are left out. show is called by another goroutine, and says nothing by
// nothing. On a nil Terminal nothing is ever drawn and show is not called.
func (t *Terminal) Start(show func(elapsed time.Duration) []string) *Line {
	if t == nil {
		return nil
	}
	l := &Line{at: t, started: time.Now(), end: make(chan struct{})}
	go l.run(show)
	return l
}

func (l *Line) run(show func(time.Duration) []string) {
	for wait := Delay; ; wait = pace {
		select {
		case <-l.end:
			return
		case <-time.After(wait):
		}
		l.draw(fit(show(time.Since(l.started)), l.at.Width()-1)) // the last column would wrap
	}
}

// draw replaces what is shown.
func (l *Line) draw(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || text == l.shown {
		return
	}
	l.shown = text
	_, _ = io.WriteString(l.at.To, "\r"+text+"\x1b[K")
}

// erase takes away what is shown. The lock is held.
func (l *Line) erase() {
	if l.shown != "" {
		l.shown = ""
		_, _ = io.WriteString(l.at.To, "\r\x1b[K")
	}
}

// Stop takes the line away. It waits for nothing.
func (l *Line) Stop() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended {
		l.erase()
		l.ended = true
		close(l.end)
	}
}

// Above makes a writer of whole lines that writes them above the line.
func (l *Line) Above(to io.Writer) io.Writer {
	if l == nil {
		return to
	}
	return above{l, to}
}

type above struct {
	line *Line
	to   io.Writer
}

func (a above) Write(text []byte) (int, error) {
	a.line.mu.Lock()
	defer a.line.mu.Unlock()
	a.line.erase()
	return a.to.Write(text)
}

const between = " · "

// fit is a line of as many of the parts as there is room for.
func fit(parts []string, width int) string {
	var line string
	for i, p := range parts {
		p = safetext.Line(p)
		if i > 0 {
			p = line + between + p
		}
		if utf8.RuneCountInString(p) > width {
			if i == 0 {
				return string([]rune(p)[:max(width, 0)])
			}
			break
		}
		line = p
	}
	return strings.TrimSpace(line)
}

// Time is how long something takes: 12 s, 3 min.
func Time(d time.Duration) string {
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d min", d/time.Minute)
}
