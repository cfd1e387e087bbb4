package dockertest

import (
	"os/exec"
	"syscall"
)

// keeperScript sits in the network namespace until its input ends, which it
// does also when the test process dies in whatever way. Then it clears away
// what the engine has started: first through the engine, if there is one, then
// process by process (those below the engine's directory are known by their
// command line, containers by the files that containerd keeps of them).
const keeperScript = `
dir=$1
ip link set lo up
echo ready
read -r _
kill -CONT "$(cat "$dir/dockerd.pid")" 2>/dev/null
if docker -H "unix://$dir/docker.sock" version >/dev/null 2>&1; then
	all=$(docker -H "unix://$dir/docker.sock" ps --all --quiet)
	[ -z "$all" ] || docker -H "unix://$dir/docker.sock" rm --force --volumes $all >/dev/null 2>&1
fi
mine() {
	for p in /proc/[0-9]*; do
		[ "${p#/proc/}" = $$ ] && continue
		tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -qF "$dir/" && echo "${p#/proc/}"
	done
}
for f in "$dir"/exec/containerd/daemon/io.containerd.runtime.v2.task/moby/*/init.pid; do
	[ -f "$f" ] && kill -KILL "$(cat "$f")" 2>/dev/null
done
for p in $(mine); do kill -TERM "$p" 2>/dev/null; done
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
	[ -z "$(mine)" ] && break
	sleep 0.25
done
for p in $(mine); do kill -KILL "$p" 2>/dev/null; done
for c in "$dir"/root/containers/*; do
	[ -d "$c" ] && find /sys/fs/cgroup -depth -type d -path "*/${c##*/}*" -exec rmdir {} + 2>/dev/null
done
for i in 1 2 3; do
	awk -v d="$dir/" 'index($2, d) == 1 {print $2}' /proc/mounts | sort -r | while read -r m; do umount -l "$m"; done
	rm -rf "$dir" && break
	sleep 0.25
done
`

// startKeeper makes the network namespace and arranges for the end.
func (e *Engine) startKeeper() {
	e.t.Helper()
	cmd := exec.Command("unshare", "--net", "sh", "-c", keeperScript, "dockertest-keeper", e.dir)
	// It must outlive a signal that ends the test.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		e.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	e.keeper = cmd
	e.t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
		if e.exited != nil {
			<-e.exited
		}
	})
	if _, err := output.Read(make([]byte, len("ready\n"))); err != nil {
		e.t.Fatalf("no network namespace for the engine: %v", err)
	}
}
