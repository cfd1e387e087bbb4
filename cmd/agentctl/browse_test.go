package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/plumb-net/plumb/plugins/private/privatetest"
)

// openerScript stands for xdg-open: it tells its process ID, what it was given and whose it is, and
// stays until its file for input ends.
const openerScript = `#!/bin/sh
printf '%s\n' "$$" "$(id -u)" "$1" "$HOME" > DIR/told
read -r line < DIR/end
`

// TestBrowserStarter: the starter of the browser runs as the user who called sudo, and neither its
// arguments nor its environment have the token, which any user of the host could read; it is in a
// file that nobody else can read, and which goes away.
func TestBrowserStarter(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("processes of other users need root")
	}
	dir, err := os.MkdirTemp("/tmp", "plumb-opener-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	script := strings.ReplaceAll(openerScript, "DIR", dir)
	for name, mode := range map[string]os.FileMode{"xdg-open": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, fifo := range []string{"told", "end"} {
		if err := syscall.Mkfifo(filepath.Join(dir, fifo), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, fifo), privatetest.Nobody, -1); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	vars := map[string]string{"SUDO_UID": strconv.Itoa(privatetest.Nobody), "DISPLAY": ":9", "PLUMB_SOCKET": filepath.Join(dir, "none")}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var out, said bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, env{args: []string{"ui"}, stdout: &out, stderr: &said, getenv: func(s string) string { return vars[s] }, terminal: true})
	}()
	told := make(chan []string, 1)
	go func() {
		text, err := os.ReadFile(filepath.Join(dir, "told"))
		if err != nil {
			t.Error(err)
		}
		told <- append(strings.Split(string(text), "\n"), "", "", "", "")
	}()
	var starter []string
	select {
	case starter = <-told:
	case code := <-done:
		t.Fatalf("it ended with %d\n%s%s", code, &out, &said)
	}
	pid, uid, given, home := starter[0], starter[1], starter[2], starter[3]
	if uid != strconv.Itoa(privatetest.Nobody) || home == os.Getenv("HOME") {
		t.Errorf("it runs as user %s at %s", uid, home)
	}
	file := strings.TrimPrefix(given, "file://")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	url := regexp.MustCompile(`url=(http://127\.0\.0\.1:\d+/ui/\?token=(\w{20,}))"`).FindSubmatch(text)
	if url == nil {
		t.Fatalf("the file leads nowhere: %s", text)
	}
	for _, of := range []string{"cmdline", "environ"} {
		found, err := filepath.Glob("/proc/[0-9]*/" + of)
		if err != nil {
			t.Fatal(err)
		}
		seen := false
		for _, f := range found {
			text, _ := os.ReadFile(f) // or the process has ended
			seen = seen || f == "/proc/"+pid+"/"+of && len(text) > 0
			if bytes.Contains(text, url[2]) {
				t.Errorf("%s has the token: %q", f, text)
			}
		}
		if !seen {
			t.Errorf("the %s of the starter was not looked at", of)
		}
	}
	for uid, may := range map[int]bool{privatetest.Nobody: true, privatetest.Nobody - 1: false} {
		privatetest.As(uid, func() {
			if _, err := os.ReadFile(file); (err == nil) != may {
				t.Errorf("user %d reads the file: %v", uid, err)
			}
		})
	}
	if err := os.WriteFile(filepath.Join(dir, "end"), []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	end()
	if code := <-done; code != 0 {
		t.Errorf("it ended with %d\n%s", code, &said)
	}
	if !strings.HasPrefix(out.String(), string(url[1])+"\n") {
		t.Errorf("the address is printed as %q, and the browser is led to %s", &out, url[1])
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the file stays")
	}
}

// TestDesktopUser: the page is for the user who called sudo, and a wrong ID is for nobody.
func TestDesktopUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("root alone calls for others")
	}
	for text, want := range map[string]int{"1000": 1000, "0": 0, "-1": -1, "x": -1, "4294967295": -1, "1000 0": -1} {
		c := &cli{env: env{getenv: func(name string) string { return map[string]string{"SUDO_UID": text}[name] }}}
		uid, err := c.desktopUser()
		if (err == nil) != (want >= 0) || err == nil && uid != want {
			t.Errorf("%q: %d, %v", text, uid, err)
		}
	}
}
