package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReportIsANewFile: a report is written into a file of its own, never through a link or
// into a file that is there.
func TestReportIsANewFile(t *testing.T) {
	dir := t.TempDir()
	target, link, dangling := filepath.Join(dir, "target"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	nowhere := filepath.Join(dir, "nowhere")
	if err := errors.Join(os.WriteFile(target, []byte("theirs"), 0o666), os.Symlink(target, link), os.Symlink(nowhere, dangling)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{target, link, dangling} {
		if err := writeNew(file, []byte("report")); err == nil || !strings.Contains(err.Error(), file+" exists already; remove it") {
			t.Errorf("%s: %v", file, err)
		}
	}
	if text, err := os.ReadFile(target); string(text) != "theirs" || err != nil {
		t.Errorf("it holds %q, %v", text, err)
	}
	if _, err := os.Lstat(nowhere); !os.IsNotExist(err) {
		t.Error("a file was made behind a link")
	}
	report := filepath.Join(dir, "report")
	err := writeNew(report, []byte("report"))
	text, err2 := os.ReadFile(report)
	info, err3 := os.Stat(report)
	if err := errors.Join(err, err2, err3); err != nil || string(text) != "report" || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %q", err, text)
	}
}

// TestTellLine: what others wrote cannot begin another line on a terminal.
func TestTellLine(t *testing.T) {
	var out bytes.Buffer
	c := &cli{env: env{stderr: &out}}
	c.tellLine("note: %s: %s", "host7", "fine\nnote: host8: \x1b[2Jgone\r\u202e")
	if got, want := out.String(), `note: host7: fine\nnote: host8: \x1b[2Jgone\r\u202e`+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
