package oom

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"
)

// Errors of Messages.
var (
	// ErrNone: there is no message now.
	ErrNone = errors.New("no message")
	// ErrLost: messages were overwritten before they were read.
	ErrLost = errors.New("messages were lost")
)

// Messages is the kernel's log; [OpenKmsg] is the real one.
type Messages interface {
	// Next returns the next message without waiting, or ErrNone, or ErrLost;
	// after either it may be called again. Other errors are final.
	Next() (Message, error)
	// Wait blocks until Next has something or ctx ends.
	Wait(ctx context.Context) error
	Close() error
}

// Message is one record of the kernel's log.
type Message struct {
	// Seq numbers the records without gaps.
	Seq uint64
	// Age is how long before it was read it was written, as far as that is known.
	Age time.Duration
	// stamp is the kernel's clock when it was written.
	stamp time.Duration
	// Kernel is false for what processes have written into the log.
	Kernel bool
	// Continues is set for a piece that goes on with the record before.
	Continues bool
	Text      string
}

// parseMessage reads a record as /dev/kmsg gives it: level and facility,
// number, time and flags, then the text; further lines are properties.
//
//	6,49352,11870203456,-;oom-kill:constraint=…
func parseMessage(record string) (m Message, ok bool) {
	head, text, ok := strings.Cut(record, ";")
	if !ok {
		return m, false
	}
	text, _, _ = strings.Cut(text, "\n")
	fields := strings.Split(head, ",")
	if len(fields) < 3 {
		return m, false
	}
	priority, err := strconv.ParseUint(fields[0], 10, 32)
	if err != nil {
		return m, false
	}
	if m.Seq, err = strconv.ParseUint(fields[1], 10, 64); err != nil {
		return m, false
	}
	if stamp, err := strconv.ParseInt(fields[2], 10, 64); err == nil && stamp >= 0 {
		m.stamp = time.Duration(stamp) * time.Microsecond
	}
	m.Kernel = priority>>3 == 0
	m.Continues = len(fields) > 3 && (fields[3] == "c" || fields[3] == "+")
	m.Text = unescape(text)
	return m, true
}

// unescape undoes what /dev/kmsg does to bytes that are not plain text: \x0a.
func unescape(text string) string {
	if !strings.Contains(text, `\x`) {
		return text
	}
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, `\x`)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if b, err := strconv.ParseUint(after[:min(2, len(after))], 16, 8); err == nil && len(after) >= 2 {
			out.WriteByte(byte(b))
			text = after[2:]
			continue
		}
		out.WriteString(`\x`)
		text = after
	}
}
