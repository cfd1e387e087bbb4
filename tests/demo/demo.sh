#!/bin/bash
# The demo: intent first, containers later, and what happens when things break.
# Every step is checked; the first that fails ends the demo with exit code 1.
# It leaves nothing behind, however it ends, but an installed Docker package.
#
# With DEMO_ENGINE=own it starts a Docker engine of its own even if one runs.
set -euo pipefail
cd "$(dirname "$0")/../.."

readonly dir=/var/lib/plumb-demo # everything that the demo writes
readonly image=plumb-demo:local log=$dir/agent.log
readonly web=demo-web db=demo-db # service labels, and names of containers
readonly agent_flags=(--label demo --run-dir "$dir/run" --state-dir "$dir/state")
export PLUMB_SOCKET=$dir/run/agent.sock PATH=$PWD/bin:$PATH
unset DOCKER_CONTEXT

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }
fail() { printf '✘ %s\n' "$*"; exit 1; }

# show prints a command as one would type it, and runs it.
show() {
	local word
	printf '$'
	for word; do
		[[ $word =~ ^[-A-Za-z0-9_./:=@]+$ ]] || word="'$word'"
		printf ' %s' "$word"
	done
	printf '\n'
	"$@"
}

# check WHAT COMMAND... says whether the command succeeds, and why it does not.
check() {
	local what=$1 said
	shift
	if said=$("$@" 2>&1); then
		printf '✔ %s\n' "$what"
		return
	fi
	printf '%s\n' "$said"
	fail "$what"
}

# within SECONDS COMMAND... tries again until the command succeeds.
within() {
	local end=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < end)) || return 1
		sleep 0.1
	done
}

# is KEY STATE [REASON] tells whether the key is in the state, for the reason.
is() {
	local line
	line=$(agentctl get "$1" -o 'template={{.state}} {{.reason}}') && echo "$1: $line" &&
		[[ $line == "$2 "*"${3:-}"* ]]
}

alive() { [[ -n ${1:-} ]] && kill -0 "$1" 2>/dev/null; }
ended() { ! alive "$1"; }

# mine PID tells whether the process is one that a demo started.
mine() { alive "${1:-}" && tr '\0' ' ' <"/proc/$1/cmdline" | grep -qF "$dir/"; }

# stop FILE ends the process whose id is in the file, if a demo started it.
stop() {
	local pid
	pid=$(cat "$1" 2>/dev/null) || return 0
	mine "$pid" || return 0
	kill "$pid"
	within 10 ended "$pid" || kill -9 "$pid"
}

# clear takes away what this demo, or one that was killed, has left.
clear() {
	if [[ -n ${DOCKER_HOST:-} ]] && docker version >/dev/null 2>&1; then
		docker rm --force "$web" "$db" >/dev/null 2>&1 || true
		docker rmi "$image" >/dev/null 2>&1 || true
	fi
	stop "$dir/agent.pid"
	if [[ -d $dir/state ]]; then
		timeout 60 bin/plumb-agent cleanup "${agent_flags[@]}" --log-level error || return 1
		rm -rf "$dir/state"
	fi
	stop "$dir/dockerd.pid"
	awk -v d="$dir/" 'index($2, d) == 1 { print $2 }' /proc/mounts | sort -r | xargs -r umount -l
	rm -rf "$dir"
}

finish() {
	local code=$?
	trap - EXIT
	trap '' INT TERM HUP PIPE # to the end
	set +e
	if ((code != 0)) && [[ -f $log ]]; then
		title "The demo failed. The last lines of the agent's log:"
		tail -n 20 "$log"
	fi
	clear >/dev/null || { echo "the demo could not clear $dir"; code=1; }
	exit "$code"
}

start_docker() {
	if ! command -v dockerd >/dev/null; then
		echo "installing docker.io"
		export DEBIAN_FRONTEND=noninteractive
		apt-get install -y -qq --no-install-recommends docker.io >/dev/null 2>&1 ||
			{ apt-get update -qq && apt-get install -y -qq --no-install-recommends docker.io >/dev/null; }
	fi
	# Newer Debians have the command in a package of its own.
	command -v docker >/dev/null || apt-get install -y -qq --no-install-recommends docker-cli >/dev/null
	export DOCKER_HOST=unix:///var/run/docker.sock
	if [[ ${DEMO_ENGINE:-} != own ]] && within 3 docker version >/dev/null 2>&1; then
		return
	fi
	# One of our own, in a network namespace of its own, so that the
	# host's bridges and firewall stay as they are.
	export DOCKER_HOST=unix://$dir/docker.sock
	unshare --net dockerd --host "$DOCKER_HOST" --pidfile "$dir/dockerd.pid" \
		--data-root "$dir/docker" --exec-root "$dir/docker-run" \
		--bridge none --iptables=false >"$dir/dockerd.log" 2>&1 &
	within 60 docker version >/dev/null 2>&1 || { tail "$dir/dockerd.log"; return 1; }
}

ready() { [[ $(agentctl status -o 'template={{.state}}' 2>/dev/null) == ready ]]; }

start_agent() {
	plumb-agent "${agent_flags[@]}" --docker "$DOCKER_HOST" 2>>"$log" &
	echo $! >"$dir/agent.pid"
	within 20 ready
}

run() { docker run --detach --network none --name "$1" --env "MICROSERVICE_LABEL=$1" "$image"; }
ping() { docker exec "$1" /box ping "$2"; }
configured() { agentctl wait "$@" --timeout 30s; }

# break_address does what no operator should: it takes the address off the link.
break_address() {
	nsenter --net="/proc/$(docker inspect --format '{{.State.Pid}}' "$web")/ns/net" "$dir/box" unset-address eth1
}

# nothing_left looks for what bears our name.
nothing_left() {
	[[ ! -e /run/netns/demo-lan ]] && ! grep -qs '^plumb:demo:' /sys/class/net/*/ifalias
}

[[ $EUID == 0 ]] || fail "the demo needs root"
exec 9>/run/plumb-demo-running # only root can write to /run
flock --nonblock 9 || fail "another demo is running"

title "1. Docker, and an agent with its own etcd in $dir"
export DOCKER_HOST=unix:///var/run/docker.sock
clear >/dev/null
trap finish EXIT
trap 'exit 130' INT TERM HUP PIPE
mkdir -p -m 700 "$dir"
start_docker 9>&- || fail "the Docker engine runs"
check "the Docker engine runs" docker version
check "an image of our own is made" tests/demo/image.sh "$image" "$dir"
start_agent 9>&- || fail "the agent runs"
check "the agent runs" agentctl status

title "2. Intent comes first: two containers that do not exist yet, on a bridge"
show agentctl apply -f tests/demo/intent.yaml
show agentctl put route/demo-db-default '{"interface": "demo-db", "destination": "default", "gateway": "10.77.0.254"}'
if command -v etcdctl >/dev/null; then
	echo "the same with etcdctl:"
	show env ETCDCTL_API=3 etcdctl --endpoints "unix://$dir/run/etcd.sock" put /plumb/demo/config/route/demo-db-default \
		'{"interface": "demo-db", "destination": "default", "gateway": "10.77.0.254"}'
fi
check "what can be made is made" configured netns/demo-lan interface/demo-br
check "interface/demo-web waits for its container" within 10 is interface/demo-web pending microservice/demo-web
check "route/demo-web-default waits for its interface" within 10 is route/demo-web-default pending interface/demo-web
show agentctl why route/demo-web-default

title "3. The containers start"
check "container $web starts" run "$web"
check "container $db starts" run "$db"
check "everything is configured" configured interface/demo-{web,db}{,-port} route/demo-{web,db}-default
check "$web reaches $db" ping "$web" 10.77.0.2
check "$db reaches $web" ping "$db" 10.77.0.1
check "$web reaches the bridge" ping "$web" 10.77.0.254

title "4. A container is killed, and comes back"
check "container $web is killed" docker kill "$web"
check "interface/demo-web waits again" within 10 is interface/demo-web pending microservice/demo-web
show agentctl why interface/demo-web-port
check "container $web starts again" docker start "$web"
check "everything is configured again" configured interface/demo-{web,db}{,-port} route/demo-{web,db}-default
check "$web reaches $db" ping "$web" 10.77.0.2

title "5. Somebody takes an address away inside a container"
check "the address is deleted" break_address
check "it is back: $web reaches $db" ping "$web" 10.77.0.2
check "so is the route, which went with it" within 5 configured interface/demo-web route/demo-web-default

title "6. What the agent has to say"
show agentctl get
show agentctl why interface/demo-web
show agentctl history

title "7. Everything goes"
check "containers and image go" docker rm --force "$web" "$db"
check "the agent stops" stop "$dir/agent.pid"
show plumb-agent cleanup "${agent_flags[@]}" --log-level error
check "nothing of it is left in the kernel" nothing_left
rm -rf "$dir/state"
clear >/dev/null
check "nor on the disk" test ! -e "$dir"
trap - EXIT
title "Done: every step was checked."
