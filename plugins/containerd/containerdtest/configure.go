package containerdtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// needed are the files that a containerd and its tests need, with the Debian
// packages that have them.
var needed = []struct{ file, debian string }{
	{"containerd", "containerd"},
	{"ctr", "containerd"},
	{"runc", "runc"},
	{"busybox", "busybox-static"},
	{"unshare", "util-linux"},
	{"nsenter", "util-linux"},
	{"ip", "iproute2"},
	{filepath.Join(pluginDir, "bridge"), "containernetworking-plugins"},
}

// pluginDir is where Debian has the CNI plugins.
const pluginDir = "/usr/lib/cni"

// require skips the test where no containerd can run. In CI that is a failure:
// a test that never runs proves nothing.
func require(t testing.TB) {
	t.Helper()
	missing := missing()
	switch {
	case missing == "":
	case os.Getenv("CI") == "true":
		t.Fatal(missing)
	default:
		t.Skip(missing)
	}
}

// missing says what keeps a containerd from running here, "" if nothing does.
func missing() string {
	if os.Geteuid() != 0 {
		return "a containerd for tests needs root"
	}
	for _, n := range needed {
		if _, err := exec.LookPath(n.file); err != nil {
			return "there is no " + n.file + " here; on Debian: apt-get install " + n.debian
		}
	}
	return ""
}

// config of the daemon. Without CAP_SYS_RESOURCE, as in many a container, runc
// may not lower the score by which the kernel chooses whom to kill.
const config = `
version = 2
root = "DIR/root"
state = "DIR/state"
[grpc]
  address = "DIR/c.sock"
[ttrpc]
  address = "DIR/c.sock.ttrpc"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "IMAGE"
  disable_apparmor = true
  restrict_oom_score_adj = true
  disable_tcp_service = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "DIR/bin"
    conf_dir = "DIR/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      Root = "DIR/runc"
`

// network of the pods. Its name is that of the directory, so that what the
// CNI library remembers of it elsewhere can be told from others'.
const network = `{
  "cniVersion": "0.4.0", "name": "NAME",
  "plugins": [{
    "type": "bridge", "bridge": "pods0", "isGateway": true,
    "ipam": {"type": "host-local", "dataDir": "DIR/addresses", "subnet": "10.89.0.0/24"}
  }]
}`

func (e *Engine) configure() {
	e.T.Helper()
	for _, dir := range []string{e.Plugins(), filepath.Join(e.Dir, "cni")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			e.T.Fatal(err)
		}
	}
	all, err := filepath.Glob(filepath.Join(pluginDir, "*"))
	if err != nil {
		e.T.Fatal(err)
	}
	for _, plugin := range all {
		e.AddPlugin(plugin)
	}
	e.write("config.toml", strings.NewReplacer("DIR", e.Dir, "IMAGE", Image).Replace(config))
	e.SetNetwork(strings.NewReplacer("DIR", e.Dir, "NAME", e.Network()).Replace(network))
}

func (e *Engine) write(name, text string) {
	e.T.Helper()
	path := filepath.Join(e.Dir, name)
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		e.T.Fatal(err)
	}
}

// Plugins is the directory of the CNI plugins: Debian's, and what was added.
func (e *Engine) Plugins() string { return filepath.Join(e.Dir, "bin") }

// AddPlugin adds a program to the CNI plugins.
func (e *Engine) AddPlugin(path string) {
	e.T.Helper()
	if err := os.Symlink(path, filepath.Join(e.Plugins(), filepath.Base(path))); err != nil {
		e.T.Fatal(err)
	}
}

// Network is the name of the network of the pods.
func (e *Engine) Network() string { return filepath.Base(e.Dir) }

// SetNetwork takes another list of plugins for the network of the pods; a daemon
// that runs notices it by itself.
func (e *Engine) SetNetwork(conflist string) { e.T.Helper(); e.write("cni/10-pods.conflist", conflist) }
