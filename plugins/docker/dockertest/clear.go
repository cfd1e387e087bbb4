package dockertest

// clearScript ends what the engine has started: first through the engine, if there is
// one, then process by process; containers are known by the files that containerd
// keeps of them.
const clearScript = `
kill -CONT "$(cat "$dir/dockerd.pid")" 2>/dev/null
if docker -H "unix://$dir/docker.sock" version >/dev/null 2>&1; then
	all=$(docker -H "unix://$dir/docker.sock" ps --all --quiet)
	[ -z "$all" ] || docker -H "unix://$dir/docker.sock" rm --force --volumes $all >/dev/null 2>&1
fi
for f in "$dir"/exec/containerd/daemon/io.containerd.runtime.v2.task/moby/*/init.pid; do
	[ -f "$f" ] && kill -KILL "$(cat "$f")" 2>/dev/null
done
for p in $(mine); do kill -TERM "$p" 2>/dev/null; done
gone 20
for p in $(mine); do kill -KILL "$p" 2>/dev/null; done
for c in "$dir"/root/containers/*; do
	[ -d "$c" ] && find /sys/fs/cgroup -depth -type d -path "*/${c##*/}*" -exec rmdir {} + 2>/dev/null
done
`
