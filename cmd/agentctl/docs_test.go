package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func everyCommand(cmd *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		all = append(all, everyCommand(sub)...)
	}
	return all
}

// TestGenDocs checks that the documentation names every command and its flags.
func TestGenDocs(t *testing.T) {
	root := newRoot(&cli{env: env{getenv: func(string) string { return "" }}})
	var b bytes.Buffer
	writeDocs(&b, root)
	for _, cmd := range everyCommand(root)[1:] {
		if !cmd.Hidden && !strings.Contains(b.String(), "## "+cmd.CommandPath()+"\n") {
			t.Errorf("%s is not documented", cmd.CommandPath())
		}
	}
	for _, want := range []string{"| `--revert-on-failure` | - |", "| `-o, --output` | `table` |", "| `--socket` | - |", "else /run/plumb/agent.sock)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the documentation lacks %s", want)
		}
	}
}
