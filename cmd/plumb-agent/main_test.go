package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPrintConfigMasks: passwords in addresses are shown to nobody.
func TestPrintConfigMasks(t *testing.T) {
	cmd := command()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--label", "x", "--etcd", "http://root:hunter2@10.0.0.1:2379", "--print-config"})
	if err := cmd.ExecuteContext(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Contains(got, "hunter2") || !strings.Contains(got, "http://root:***@10.0.0.1:2379") {
		t.Errorf("got\n%s", got)
	}
}

// TestLogIsSafe: a line of the log stays one line that a terminal prints as it is,
// whatever others call themselves, and holds no password of an address.
func TestLogIsSafe(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		var out bytes.Buffer
		log := slog.New(handler(&out, format))
		hostile := "a\n\x1b[2J\u202e\u009b31m"
		log.Warn("said", "name", hostile, "error", errors.New("dial http://u:hunter2@h: "+hostile), "list", []string{"http://u:hunter2@h", hostile})
		got := out.String()
		if strings.Count(got, "\n") != 1 || strings.ContainsAny(got, "\x1b\u202e\u009b") || strings.Contains(got, "hunter2") {
			t.Errorf("%s: got %q", format, got)
		}
	}
}

// TestLogAsJSON: each line is an object, with a time, numbers and texts as they are.
func TestLogAsJSON(t *testing.T) {
	var out bytes.Buffer
	hostile := "a\n\x1b[2J\u202e"
	slog.New(handler(&out, "json")).With("part", "scheduler").
		Info("transaction", "seq", 7, "note", hostile, "took", 1500*time.Millisecond, "error", errors.New("no"))
	var got struct {
		Time                         time.Time
		Level, Msg, Part, Note, Took string
		Error                        string
		Seq                          int
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if time.Since(got.Time) > time.Minute {
		t.Errorf("it was at %v", got.Time)
	}
	got.Time = time.Time{}
	want := got
	want.Level, want.Msg, want.Part, want.Note, want.Took, want.Error, want.Seq = "INFO", "transaction", "scheduler", hostile, "1.5s", "no", 7
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// fullDisk takes no byte.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestNowhereToWrite: an answer that cannot be written is an error.
func TestNowhereToWrite(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--help"}, {"--print-config", "--label", "x"}} {
		if code := run(context.Background(), args, fullDisk{}); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
}

// TestUsageErrors: who calls it wrongly is told what was wrong, and where all flags are.
func TestUsageErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--labl x":          "unknown flag: --labl; see `plumb-agent --help`",
		"cleanup --labl x":  "unknown flag: --labl; see `plumb-agent cleanup --help`",
		"--label":           "flag needs an argument: --label; see `plumb-agent --help`",
		"clean":             "unknown command \"clean\" for \"plumb-agent\"; see `plumb-agent --help`",
		"recover-store etc": "unknown command \"etc\" for \"plumb-agent recover-store\"; see `plumb-agent recover-store --help`",
	} {
		cmd := command()
		cmd.SetArgs(strings.Fields(args))
		if err := cmd.ExecuteContext(context.Background()); err == nil || err.Error() != want {
			t.Errorf("plumb-agent %s: got %v, want %s", args, err, want)
		}
	}
}
