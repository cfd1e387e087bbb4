package demo

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// machine is what a page of docs/tasks finds: a machine with nothing on it but an agent that has
// just been started, in namespaces of its own.
const machine = `set -e
mount -t tmpfs none /run; mount -t tmpfs none /var/lib; ip link set lo up
export PATH=$PWD/bin:$PATH PLUMB_LABEL=%s PLUMB_DOCKER=off PLUMB_CONTAINERD=off
cd $(mktemp -d -p /run)
command -v ping >/dev/null || { ln -s $(command -v busybox) /run/ping; PATH=$PATH:/run; }
plumb-agent 2>/run/agent.log & agent=$!
show() { # what there is when a command has failed
	agentctl get; ip -d addr; bridge -d link; bridge vlan; bridge fdb
	for n in $(ip netns list | cut -d ' ' -f 1); do echo "== $n"; ip -n $n -d addr; ip -n $n route; ip -n $n neigh; done
	cat /run/agent.log
}
trap 'code=$?; [ $code = 0 ] || show 2>&1; kill $agent 2>/dev/null; wait $agent; exit $code' EXIT
until agentctl status -o 'template={{.state}}' 2>/dev/null | grep -qx ready; do sleep 0.1; done
`

// more is what some pages find besides.
var more = map[string]string{
	// Directories of the host that the page writes to, and a containerd. Without
	// CAP_SYS_RESOURCE, as in many a container, limits cannot be raised.
	"cni-containerd-podman": `for d in /etc /usr/lib/cni; do
	mkdir -p /run/over$d /run/work$d
	mount -t overlay overlay -o lowerdir=$d,upperdir=/run/over$d,workdir=/run/work$d $d
done
mount -t tmpfs none /opt; install -D "$(command -v plumb-agent | xargs dirname)/plumb-cni" /opt/cni/bin/plumb-cni
rm -f /etc/cni/net.d/* /etc/containers/containers.conf
cat > /etc/containers/containers.conf <<EOT
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
EOT
containerd >/run/containerd.log 2>&1 & containerd=$!
trap 'code=$?; [ $code = 0 ] || show 2>&1; kill $agent $containerd 2>/dev/null; wait $agent $containerd; exit $code' EXIT
until ctr version >/dev/null 2>&1; do sleep 0.1; done
`,
}

// mark stands before what each command prints.
const mark = "\x01"

// ofDebian are the pages for which the kernel of this machine may lack a type of link.
// tests/kernels plays them, and no others, under Debian's.
var ofDebian = []string{"vlan-and-vrf"}

// TestTasks does what the pages of docs/tasks say. In a block of the type console the lines
// that begin with "$ " are commands, and the others what they print; … stands for anything.
func TestTasks(t *testing.T) {
	needRoot(t)
	there := os.Getenv("PLUMB_KERNEL") != ""
	if !there { // there they have been brought
		if out, err := exec.Command("make", "-C", "../..", "build").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	pages, err := filepath.Glob("../../docs/tasks/*.md")
	if err != nil || len(pages) < 2 {
		t.Fatal("no pages", err)
	}
	for _, page := range pages {
		name := strings.TrimSuffix(filepath.Base(page), ".md")
		if slices.Contains(ofDebian, name) != there {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			play(t, name, string(text))
		})
	}
}

// play runs the blocks of a page in one shell and compares what is printed.
func play(t *testing.T, name, page string) {
	t.Helper()
	var wants []string
	lines := fmt.Sprintf(machine, "task-"+name) + more[name]
	for _, m := range regexp.MustCompile("(?ms)^```(sh|console)\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		if m[1] == "sh" {
			lines += "printf '" + mark + "'\n" + m[2]
			wants = append(wants, "…")
			continue
		}
		for line := range strings.Lines(m[2]) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				lines += "printf '" + mark + "'\n" + command
				wants = append(wants, "")
			} else {
				wants[len(wants)-1] += line
			}
		}
	}
	cmd := exec.CommandContext(t.Context(), "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", lines)
	cmd.Dir = "../.."
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	got := strings.Split(string(out), mark)
	if err != nil {
		t.Fatalf("%v after %d of %d blocks and commands\n%s", err, len(got)-1, len(wants), strings.Join(got, ""))
	}
	for i, want := range wants {
		if pattern(want).MatchString(got[i+1]) {
			continue
		}
		t.Errorf("the page says\n%s\nand it printed\n%s", want, got[i+1])
	}
}

func pattern(want string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$")
}
