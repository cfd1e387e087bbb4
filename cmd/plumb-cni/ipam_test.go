package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// TestDelegated plays testdata/N18-delegated. Besides what the other stories have:
//
//	ipam COMMAND  what the plugin for addresses answers to it: "-" for success without
//	              a word, "fails" and an error, or a result
//	taken         the interface is there already
func TestDelegated(t *testing.T) { delegated(t, "testdata/N18-delegated") }

// TestContainerUnknown: code 3 of a plugin of others is not passed on.
func TestContainerUnknown(t *testing.T) { delegated(t, "testdata/N20-container-unknown") }

func delegated(t *testing.T, file string) {
	run, dir := filepath.Join(t.TempDir(), "run"), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "host-local"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := &peer{t: t, run: run, ipam: &fakeIPAM{answers: map[string]string{}}}
		datadriven.RunTest(t, file, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "agent":
				p.how, p.says = d.CmdArgs[0].Key, strings.Split(d.Input, "\n")
			case "ipam":
				p.ipam.answers[d.CmdArgs[0].Key] = d.Input
			case "taken":
				p.taken = !p.taken
			case "call":
				return strings.ReplaceAll(p.call(strings.ReplaceAll(d.Input, "$CNI", dir)), dir, "$CNI")
			default:
				d.Fatalf(t, "unknown directive %s", d.Cmd)
			}
			return ""
		})
	})
}

// fakeIPAM is a plugin that gives addresses.
type fakeIPAM struct {
	answers map[string]string
	heard   []string
}

func (f *fakeIPAM) said() string {
	if f == nil {
		return ""
	}
	return strings.Join(f.heard, "\n")
}

func (f *fakeIPAM) run(path string, env []string, stdin []byte, stderr io.Writer) ([]byte, error) {
	command := strings.TrimPrefix(env[0], "CNI_COMMAND=")
	f.heard = append(f.heard, fmt.Sprintf("%s %s %s", filepath.Base(path), strings.Join(env[:4], " "), strings.TrimSpace(string(stdin))))
	switch answer := f.answers[command]; {
	case answer == "-", answer == "":
		return nil, nil
	case strings.HasPrefix(answer, "fails"):
		fmt.Fprintln(stderr, "host-local: a line for the log")
		return []byte(strings.TrimPrefix(answer, "fails")), errors.New("exit status 1")
	default:
		return []byte(answer), nil
	}
}

// TestHostLocal: the real one gives addresses, says that they are there, and has
// them back when the agent refuses, and after a DEL without the agent.
func TestHostLocal(t *testing.T) {
	const plugins = "/usr/lib/cni"
	if _, err := os.Stat(plugins + "/host-local"); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	netlinktest.Root(t)
	p := &peer{t: t, run: filepath.Join(t.TempDir(), "run"), real: true}
	dir := t.TempDir()
	call := func(command, answer string) string {
		p.how, p.says = "answers", []string{"-", answer}
		if answer == "" {
			p.how = "forbidden"
		}
		return p.call(fmt.Sprintf(`CNI_COMMAND=%s
CNI_CONTAINERID=c1
CNI_NETNS=/run/netns/7
CNI_IFNAME=eth0
CNI_PATH=/nowhere:%s
{"cniVersion":"1.0.0","name":"blue","socket":"$RUN/cni.sock","prevResult":{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"}]},"ipam":{"type":"host-local","dataDir":"%s","ranges":[[{"subnet":"10.1.0.0/24"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`, command, plugins, dir))
	}
	given := func() (list []string) {
		files, _ := filepath.Glob(dir + "/blue/10.*")
		for _, f := range files {
			list = append(list, filepath.Base(f))
		}
		return list
	}
	made := `{"result":{"cniVersion":"1.1.0"}}`
	if out := call("ADD", made); !strings.Contains(out, `"ipam":{"cniVersion":"1.1.0","ips":[{"address":"10.1.0.2/24","gateway":"10.1.0.1"}],"routes":[{"dst":"0.0.0.0/0"}]`) || len(given()) != 1 {
		t.Errorf("%v\n%s", given(), out)
	}
	if out := call("CHECK", "{}"); out != "" && strings.Contains(out, "exit") {
		t.Error(out)
	}
	if out := call("DEL", "{}"); strings.Contains(out, "exit") || len(given()) != 0 {
		t.Errorf("%v\n%s", given(), out)
	}
	if out := call("CHECK", "{}"); !strings.Contains(out, "exit 1") {
		t.Error(out)
	}
	if out := call("ADD", `{"error":{"code":7,"msg":"no"}}`); !strings.Contains(out, "exit 1") || len(given()) != 0 {
		t.Errorf("a refused ADD: %v\n%s", given(), out)
	}
	call("ADD", made)
	if out := call("DEL", ""); strings.Contains(out, "exit") || len(given()) != 0 {
		t.Errorf("without the agent: %v\n%s", given(), out)
	}
}
