// Command build builds the API server of the tests, unless this user has it already, and prints its path.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
)

func main() {
	file, err := kubetest.Binary(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(file)
}
