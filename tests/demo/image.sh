#!/bin/bash
# Make the image of the demo's containers in the Docker engine: one static
# program, built here, so that nothing needs to be fetched.
#
#	image.sh NAME [DIRECTORY]     leaves the program in the directory, if given
set -euo pipefail
cd "$(dirname "$0")/../.."

dir=${2:-}
if [[ -z $dir ]]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
fi
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$dir/box" ./tests/demo/box
tar -C "$dir" -c box | docker import --change 'ENTRYPOINT ["/box"]' --change 'CMD ["wait"]' - "$1" >/dev/null
