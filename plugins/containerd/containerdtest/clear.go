package containerdtest

// clearScript ends what the daemon has started: containers are known by the files that
// containerd keeps of them.
const clearScript = `
for p in $(mine); do kill -CONT "$p" 2>/dev/null; kill -KILL "$p" 2>/dev/null; done
for b in "$dir"/state/io.containerd.runtime.v2.task/*/*; do
	[ -f "$b/init.pid" ] && kill -KILL "$(cat "$b/init.pid")" 2>/dev/null
	[ -f "$b/address" ] && a=$(cat "$b/address") && rm -f "${a#unix://}"
done
gone 8
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
`
