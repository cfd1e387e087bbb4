package main

import (
	"bytes"
	"os"
	"regexp"
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

// TestAdvice: each command that an advice names exists.
func TestAdvice(t *testing.T) {
	causes, err := os.ReadFile("../../plugins/diagnosis/testdata/causes")
	if err != nil {
		t.Fatal(err)
	}
	root := newRoot(&cli{env: env{getenv: func(string) string { return "" }}})
	named := regexp.MustCompile(`agentctl ([a-z]+)`).FindAllStringSubmatch(string(causes), -1)
	if len(named) == 0 {
		t.Fatal("no advice names a command")
	}
	for _, n := range named {
		if cmd, _, err := root.Find(n[1:]); err != nil || cmd == root {
			t.Errorf("there is no %s", n[0])
		}
	}
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
