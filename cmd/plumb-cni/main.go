// Command plumb-cni is what container runtimes call to attach containers to
// networks. It hands each call to the agent and keeps nothing; see docs of the
// package wire for what is said. What it says itself goes to standard error; standard
// output is the runtime's.
package main

import (
	"context"
	"net"
	"os"
	"time"

	"github.com/plumb-net/plumb/plugins/private"
)

func main() {
	os.Exit(run(system{
		getenv: os.Getenv, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		dial: func(socket string, limit time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), limit)
			defer cancel()
			return private.Dial(ctx, socket)
		},
		namespaces: kernelNamespaces{}, programs: realPrograms{},
	}))
}
