package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// told is an agent that says what it was told to, in memory and once.
type told struct{ says string }

func (a *told) dial(string, time.Duration) (net.Conn, error) {
	if a.says == "" {
		return nil, fs.ErrPermission // which is not tried again
	}
	defer func() { a.says = "" }()
	hello, answer, _ := strings.Cut(a.says, "\n")
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = fmt.Fprintln(far, hello)
		_, _ = bytesUntilLine(far)
		_, _ = fmt.Fprintln(far, answer)
	}()
	return near, nil
}

func bytesUntilLine(r io.Reader) (n int, err error) {
	one := make([]byte, 4096)
	for {
		m, err := r.Read(one)
		n += m
		if err != nil || bytes.IndexByte(one[:m], '\n') >= 0 {
			return n, err
		}
	}
}

// nothing is a kernel and programs of which nothing is there but one namespace.
type nothing struct{}

func (nothing) inode(path string) (uint64, bool) { return uint64(len(path)), path == "/host" }
func (nothing) another(string) string            { return "" }
func (nothing) unlink(string, string) error      { return nil }
func (nothing) has(string, string) bool          { return false }
func (nothing) forwards(int) bool                { return false }
func (nothing) run(string, []string, []byte, io.Writer) ([]byte, error) {
	return []byte(`{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.1/24"}]}`), nil
}

// FuzzCall: whatever a runtime says in the environment and on standard input, and
// whatever answers at the socket, the program ends with 0 or 1 and prints nothing or
// JSON; an error has a code, a text and a version that is known.
func FuzzCall(f *testing.F) {
	const hello = `{"plumb":"cni","oldest":1,"newest":1}` + "\n"
	for _, s := range [][6]string{
		{"ADD", "c1", "/run/netns/7", "eth0", `{"cniVersion":"1.0.0","name":"blue"}`, hello + `{"result":{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.1/24"}]}}`},
		{"ADD", "c1", "/run/netns/7", "eth0", `{"cniVersion":"0.3.1","name":"blue","pool":"10.1.0.0/16","ipam":{"type":"static"},"runtimeConfig":{"ips":["10.1.0.9/16"],"portMappings":[{"hostPort":1,"containerPort":2,"protocol":"tcp"}]}}`, hello + `{"error":{"code":11,"msg":"x"}}`},
		{"CHECK", "c1", "/run/netns/7", "eth0", `{"cniVersion":"0.4.0","name":"blue","prevResult":{"ips":[{"version":"4","address":"10.0.0.1/24"}]}}`, hello + `{}`},
		{"CHECK", "c1", "/host", "eth0", `{"cniVersion":"1.1.0","name":"b l"}`, ""},
		{"GC", "", "", "", `{"cniVersion":"1.1.0","name":"blue","cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}`, hello},
		{"STATUS", "", "", "", `{"cniVersion":"1.1.0","name":"blue"}`, `{"plumb":"cni","oldest":9,"newest":9}`},
		{"VERSION", "", "", "", `{"cniVersion":"9"}`, ""},
		{"ADD", "c/1", "x", "a/b", `[`, "{"},
	} {
		f.Add(s[0], s[1], s[2], s[3], "IgnoreUnknown=1;K8S_POD_NAME=web", s[4], s[5])
	}
	f.Fuzz(func(t *testing.T, command, container, netns, ifname, args, config, says string) {
		if command == "DEL" {
			return // it would be left in the directory of whatever socket is named
		}
		hello, _, _ := strings.Cut(says, "\n")
		var h wire.Hello
		if wire.NewReader(strings.NewReader(hello+"\n")).Read(&h) == nil {
			if _, err := wire.Agree(h); err != nil && !errors.Is(err, wire.ErrNoCommon) {
				says = "" // who is not the agent is tried again for seconds
			}
		} else {
			says = ""
		}
		var out, errs bytes.Buffer
		env := map[string]string{"CNI_COMMAND": command, "CNI_CONTAINERID": container, "CNI_NETNS": netns, "CNI_IFNAME": ifname, "CNI_ARGS": args}
		code := run(system{
			getenv: func(name string) string { return env[name] }, stdin: strings.NewReader(config), stdout: &out, stderr: &errs,
			dial: (&told{says}).dial, namespaces: nothing{}, programs: nothing{},
		})
		if code == 0 && out.Len() == 0 {
			return
		}
		var printed struct {
			CNIVersion string `json:"cniVersion"`
			Code       int    `json:"code"`
			Msg        string `json:"msg"`
		}
		if err := json.Unmarshal(out.Bytes(), &printed); err != nil {
			t.Fatalf("exit %d, printed %q: %v", code, &out, err)
		}
		if code == 1 && (printed.Code == 0 && !strings.Contains(says, "error") || !spec.Supported(printed.CNIVersion)) || code < 0 || code > 1 {
			t.Fatalf("exit %d, printed %s", code, &out)
		}
	})
}
