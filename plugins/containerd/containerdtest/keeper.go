package containerdtest

import (
	"os/exec"
	"syscall"
)

// keeperScript sits in the network namespace until its input ends, which it
// does also when the test process dies in whatever way. Then it clears away
// what the daemon has started: containers are known by the files that
// containerd keeps of them, all else by the directory in the command line.
const keeperScript = `
dir=$1
ip link set lo up
echo ready
read -r _
mine() {
	for p in /proc/[0-9]*; do
		[ "${p#/proc/}" = $$ ] && continue
		tr '\0' ' ' <"$p/cmdline" 2>/dev/null | grep -qF "$dir/" && echo "${p#/proc/}"
	done
}
for p in $(mine); do kill -CONT "$p" 2>/dev/null; kill -KILL "$p" 2>/dev/null; done
for b in "$dir"/state/io.containerd.runtime.v2.task/*/*; do
	[ -f "$b/init.pid" ] && kill -KILL "$(cat "$b/init.pid")" 2>/dev/null
	[ -f "$b/address" ] && a=$(cat "$b/address") && rm -f "${a#unix://}"
done
for i in 1 2 3 4 5 6 7 8; do
	[ -z "$(mine)" ] && break
	sleep 0.25
done
for space in $(cat "$dir/namespaces"); do
	for b in "$dir/root/io.containerd.runtime.v2.task/$space"/*; do
		[ -d "$b" ] && find /sys/fs/cgroup -depth -type d -path "*/$space/${b##*/}" -exec rmdir {} + 2>/dev/null
	done
	rmdir /sys/fs/cgroup/*/"$space" 2>/dev/null
done
for f in /var/lib/cni/results/"${dir##*/}"-*-eth0; do
	id=${f%-eth0}
	rm -f "$f" /var/lib/cni/results/cni-loopback-"${id##*-}"-lo
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
	cmd := exec.Command("unshare", "--net", "sh", "-c", keeperScript, "containerdtest-keeper", e.dir)
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
		e.Close()
		_ = input.Close()
		_ = cmd.Wait()
		if e.exited != nil {
			<-e.exited
		}
	})
	if _, err := output.Read(make([]byte, len("ready\n"))); err != nil {
		e.t.Fatalf("no network namespace for containerd: %v", err)
	}
}
