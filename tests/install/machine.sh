#!/bin/sh
# A machine for a test: systemd as process 1 of namespaces of its own, on the files of this
# machine, of which it changes a copy that nobody keeps. It prints the number of process 1
# and lives until the standard input ends, also if that is because the test was killed.
#
# The machine shares the kernel: what has no namespace, /sys, and /proc/sys but for the
# network, it can only read, and the cgroups that it makes are below one that goes with it.
set -eu

case ${1:-} in
'')
	exec unshare --mount --net --uts --ipc --propagation private "$0" outside
	;;

outside)
	mount -t tmpfs -o mode=755 none /mnt
	mkdir /mnt/cgroups /mnt/upper /mnt/work /mnt/root
	mount -t cgroup2 none /mnt/cgroups
	group=/mnt/cgroups$(sed -n 's/^0:://p' /proc/self/cgroup)/plumb-install-$$
	mkdir "$group"
	trap 'find "$group" -depth -type d -exec rmdir {} +' EXIT

	sh -c 'echo $$ >"$1/cgroup.procs"; exec unshare --mount --cgroup --pid --fork --kill-child "$0" inside' "$0" "$group" </dev/null >&2 &
	keeper=$!
	until init=$(cat "/proc/$keeper/task/$keeper/children") && [ -n "$init" ]; do sleep 0.01; done
	echo "$init"
	cat >/dev/null
	kill -KILL "$init"
	wait "$keeper" 2>/dev/null || true
	;;

inside)
	mount -t overlay -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work none /mnt/root
	cd /mnt/root
	mount -t proc none proc
	mount --bind proc/sys/net mnt
	mount --bind proc/sys proc/sys
	mount -o remount,bind,ro proc/sys
	mount --move mnt proc/sys/net
	mount -t sysfs -o ro none sys
	mount -t cgroup2 none sys/fs/cgroup
	mount -t tmpfs -o mode=755 none run
	mount -t tmpfs -o mode=1777 none tmp
	mount -t tmpfs -o mode=755 none dev
	mkdir dev/net dev/pts dev/shm
	cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom /dev/tty /dev/kmsg dev
	cp -a /dev/net/tun dev/net

	# What this machine has of ours, what it mounts and starts, and what keeps packages from
	# starting anything.
	rm -rf etc/plumb var/lib/plumb etc/fstab etc/crypttab etc/systemd/system/*.wants usr/sbin/policy-rc.d
	printf '[Unit]\nDescription=The machine of a test\n' >etc/systemd/system/bare.target
	pivot_root . mnt
	umount -l /mnt
	exec env -i container=plumb-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		/lib/systemd/systemd --system --unit=bare.target --log-target=console --show-status=no
	;;
esac
