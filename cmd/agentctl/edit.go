package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newEdit(c *cli) *cobra.Command {
	var w waiting
	var confirm confirming
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "edit KEY",
		Short: "Change a key of intent in an editor",
		Long: `Edit opens the value of a key, as it stands in the store, in $VISUAL, $EDITOR or vi.
What is saved is validated, its plan is shown, and it is applied: exactly that plan, or
nothing if anything has moved meanwhile. A key that is not there begins with the first
example of its kind. What is invalid is kept in a file, whose name is told, and nothing
is written.`,
		Example: `  agentctl edit interface/web
  EDITOR=nano agentctl edit route/default --confirm 60s`,
		Args:              oneArg("key"),
		ValidArgsFunction: c.keysAndKinds,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := c.edited(cmd.Context(), args[0])
			if err != nil || text == "" {
				return err
			}
			p, err := c.agent().Plan(cmd.Context(), &apiv1.PlanRequest{Items: []*apiv1.Item{{Key: args[0], Text: text}}})
			if err != nil {
				return err
			}
			if dryRun {
				c.tell("nothing was written: --dry-run")
				return c.show(c.planAnswer(p))
			}
			c.planAnswer(p).table(c.stderr, false)
			req := &apiv1.ApplyRequest{Plan: p, Wait: w.wait, Timeout: duration(w.timeout), NoValues: c.noValues()}
			confirm.set(req)
			return c.apply(cmd.Context(), req)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print the plan and change nothing")
	w.flags(cmd)
	confirm.flags(cmd)
	return cmd
}

// edited is the new value of a key; empty if it is as it was.
func (c *cli) edited(ctx context.Context, key string) (text string, err error) {
	before, err := c.editable(ctx, key)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp("", "agentctl-edit-*.yaml") // for the user alone
	if err != nil {
		return "", err
	}
	defer func() {
		if err == nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(before)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", err
	}
	if err := c.editor(ctx, f.Name()); err != nil {
		return "", err
	}
	after, err := os.ReadFile(f.Name())
	switch {
	case err != nil:
		return "", err
	case bytes.Equal(after, before):
		c.tell("nothing was changed")
		return "", nil
	case len(bytes.TrimSpace(withoutComments(after))) == 0:
		os.Remove(f.Name())
		return "", fmt.Errorf("the value is empty, and nothing was written; to withdraw it: agentctl delete %s", key)
	}
	if text, err = valueText(after, true); err == nil {
		_, err = models.Decode(key, []byte(text))
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w\nnothing was written; what you wrote is in %s", key, err, f.Name())
	}
	return text, nil
}

// editable is the value of a key as people edit it.
func (c *cli) editable(ctx context.Context, key string) ([]byte, error) {
	kind, _, err := models.SplitKey(key)
	if err != nil {
		return nil, err
	}
	switch k, err := models.KindByName(kind); {
	case err != nil:
		return nil, err
	case !k.Writable:
		return nil, fmt.Errorf("%s is observed and cannot be written", key)
	}
	kv, err := c.agent().GetKV(ctx, &apiv1.GetKVRequest{Key: "config/" + key})
	head := fmt.Sprintf("# %s; agentctl explain %s tells of its fields.\n", key, kind)
	if connect.CodeOf(err) == connect.CodeNotFound {
		return c.firstExample(kind, head)
	}
	if err != nil {
		return nil, err
	}
	text, err := toYAML([]byte(kv.Value))
	if err != nil { // it is there to be mended
		text = []byte(kv.Value + "\n")
	}
	return append([]byte(head), text...), nil
}

// firstExample is a value to begin with.
func (c *cli) firstExample(kind, head string) ([]byte, error) {
	all, err := models.Example(kind)
	if err != nil {
		return nil, err
	}
	var first struct{ Value yaml.Node }
	if err := yaml.Unmarshal([]byte(all), &first); err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(&first.Value)
	return append([]byte(head+"# It is not there yet; this is an example.\n"), text...), err
}

func withoutComments(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("#")) {
			out = append(out, line...)
		}
	}
	return out
}

// editor has the user edit a file. As everywhere, the variable may hold arguments.
func (c *cli) editor(ctx context.Context, file string) error {
	command := cmp.Or(c.getenv("VISUAL"), c.getenv("EDITOR"), "vi")
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command+` "$1"`, "sh", file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.stdin, os.Stdout, c.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w; nothing was written, and your text is in %s", strings.Fields(command)[0], err, file)
	}
	return nil
}
