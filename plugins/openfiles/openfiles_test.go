package openfiles

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// An open file more is one more.
func TestRead(t *testing.T) {
	before, err := Read()
	if err != nil || before.Open < 3 || before.Limit < before.Open {
		t.Fatal(before, err)
	}
	if n, err := list(); err != nil || n != before.Open {
		t.Errorf("%d are listed, %d counted, %v", n, before.Open, err)
	}
	var files []*os.File
	for range 20 {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		files = append(files, f)
	}
	if after, err := Read(); err != nil || after.Open != before.Open+len(files) {
		t.Errorf("%v before, %v after %d more, %v", before, after, len(files), err)
	}
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		u     Usage
		near  bool
		slack int
	}{
		{Usage{Open: 10, Limit: 1024}, false, 886},
		{Usage{Open: 819, Limit: 1024}, false, 77},
		{Usage{Open: 820, Limit: 1024}, true, 76},
		{Usage{Open: 896, Limit: 1024}, true, 0},
		{Usage{Open: 1000, Limit: 1024}, true, -104},
		{Usage{Open: 30000, Limit: 65536}, false, 34512},
		{Usage{Open: 64000, Limit: 65536}, true, 512},
	} {
		if c.u.Near() != c.near || c.u.Slack() != c.slack {
			t.Errorf("%v: near %v, slack %d", c.u, c.u.Near(), c.u.Slack())
		}
	}
}

// The answer names the limit and who raises it, once.
func TestExplain(t *testing.T) {
	limit, err := Limit()
	if err != nil {
		t.Fatal(err)
	}
	for err, want := range map[error]string{
		fmt.Errorf("open x: %w", unix.EMFILE):  fmt.Sprintf("the limit of open files (%d) is reached; raise LimitNOFILE of plumb-agent: open x: too many open files", limit),
		fmt.Errorf("open x: %w", unix.ENFILE):  "the limit of open files of this system (fs.file-max = ",
		(Usage{Open: 90, Limit: 100}).Refuse(): "the limit of open files (100) is reached: 90 are open, and 12 are kept free for other work; raise LimitNOFILE of plumb-agent",
	} {
		got := Explain(err)
		if !strings.HasPrefix(got.Error(), want) || !errors.Is(got, ErrLimit) || errors.Is(got, unix.EMFILE) != errors.Is(err, unix.EMFILE) {
			t.Errorf("%v became %v", err, got)
		}
		if again := Explain(fmt.Errorf("on top: %w", got)); again.Error() != "on top: "+got.Error() {
			t.Errorf("explained twice: %v", again)
		}
	}
	// The same number of inotify_init is another limit, as long as files can be opened.
	want := "the limit of inotify instances of this user (fs.inotify.max_user_instances = "
	if got := ExplainInotify(fmt.Errorf("watch x: %w", unix.EMFILE)); !strings.HasPrefix(got.Error(), want) || !errors.Is(got, ErrLimit) {
		t.Error(got)
	}
	if got := ExplainInotify(unix.EPERM); got != unix.EPERM {
		t.Error(got)
	}
	if Explain(nil) != nil || !errors.Is(Explain(unix.EPERM), unix.EPERM) || errors.Is(Explain(unix.EPERM), ErrLimit) {
		t.Error("another error was explained")
	}
}
