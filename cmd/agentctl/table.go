package main

import (
	"bytes"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"
)

// table prints rows in columns that are as wide as they must be. The last
// column is free: it may be as long as it likes.
type table struct {
	head []string
	rows [][]string
	// state is the column that gets colors, -1 for none.
	state int
	// widths may be set to keep columns in place over several tables.
	widths []int
}

func newTable(head ...string) *table {
	t := &table{head: head, state: -1}
	for i, h := range head {
		if h == "STATE" {
			t.state = i
		}
	}
	return t
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the head and all rows.
func (t *table) write(w io.Writer, color bool) {
	t.measure()
	_, _ = w.Write(t.line(nil, t.head, false)) // the sink keeps errors
	t.flush(w, color)
}

// flush prints the rows and forgets them.
func (t *table) flush(w io.Writer, color bool) {
	t.measure()
	var text []byte
	for _, r := range t.rows {
		text = t.line(text, r, color)
	}
	t.rows = nil
	_, _ = w.Write(text)
}

func (t *table) measure() {
	if t.widths == nil {
		t.widths = make([]int, len(t.head))
	}
	for _, r := range append([][]string{t.head}, t.rows...) {
		for i, cell := range r {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(cell))
		}
	}
}

// line adds a row to a text.
func (t *table) line(text []byte, cells []string, color bool) []byte {
	for i, cell := range cells {
		if i > 0 {
			text = append(text, "  "...)
		}
		pad := t.widths[i] - utf8.RuneCountInString(cell)
		if color && i == t.state {
			cell = paint(cell)
		}
		text = append(text, cell...)
		for range pad {
			text = append(text, ' ')
		}
	}
	return append(bytes.TrimRight(text, " "), '\n')
}

// paint gives a state its color.
func paint(state string) string {
	code := "33" // yellow: on its way, or waiting
	switch state {
	case "configured", "observed", "ok", "ready":
		code = "32"
	case "failed", "invalid", "retrying", "down", "not ready", "unimplemented":
		code = "31"
	case "removed", "absent", "paused", "off", "leftover":
		code = "36"
	case "":
		return ""
	}
	return "\x1b[" + code + "m" + state + "\x1b[0m"
}

// age says how long ago a time was, in its largest unit or two.
func age(now time.Time, at *timestamppb.Timestamp) string {
	if at == nil {
		return ""
	}
	return ago(now.Sub(at.AsTime()))
}

func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// orDash stands for nothing in a column that is not the last.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// plural counts things: 1 key, 2 keys.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
