package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/safetext"
)

func newValidate(c *cli) *cobra.Command {
	var paths []string
	cmd := &cobra.Command{
		Use:   "validate -f PATH…",
		Short: "Check intent files, without an agent",
		Long: `Validate checks intent files as apply would, and names every error with its file,
line and field. What cannot be read does not keep it from the rest, but for what follows
an error of syntax in the same file. It needs no agent, so it does not know what else is
wanted.

It exits with 2 if a file cannot be read or a value is invalid, as apply would.`,
		Example: `  agentctl validate -f site.yaml
  agentctl validate -f /etc/site/`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(paths) == 0 {
				return usage(cmd, "name the files to check with -f")
			}
			items, unread, err := c.readReadable(paths)
			if err != nil {
				return err
			}
			for _, wrong := range unread {
				for _, err := range wrong {
					c.wrong("%v", err)
				}
			}
			var found []string
			if n := len(unread); n > 0 {
				found = append(found, plural(n, "file")+" cannot be read")
			}
			if bad := c.validate(items); bad > 0 {
				found = append(found, be(bad, "value")+" invalid")
			}
			if len(found) > 0 {
				return errors.New(strings.Join(found, ", "))
			}
			c.tell("%s valid", be(len(items), "value"))
			return nil
		},
	}
	cmd.Flags().StringSliceVarP(&paths, "file", "f", nil, "intent file or directory, - for stdin; may be repeated")
	return formats(noFormats, cmd)
}

// validate names all errors of the items and counts the items that have any.
func (c *cli) validate(items []*apiv1.Item) (bad int) {
	first := map[string]string{}
	for _, item := range items {
		wrong := invalidItem(item, first)
		for _, line := range wrong {
			c.wrong("%s", line)
		}
		if len(wrong) > 0 {
			bad++
		}
	}
	return bad
}

// invalidItems are all errors of the items, in lines.
func invalidItems(items []*apiv1.Item) (out []string) {
	first := map[string]string{}
	for _, item := range items {
		out = append(out, invalidItem(item, first)...)
	}
	return out
}

// invalidItem are the errors of an item; first is where each key stands that was seen.
func invalidItem(item *apiv1.Item, first map[string]string) (out []string) {
	_, err := models.Decode(item.Key, []byte(item.Text))
	if at, twice := first[item.Key]; err == nil && twice {
		err = fmt.Errorf("the key is given in %s already", at)
	}
	first[item.Key] = item.Where
	var invalid *models.InvalidError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &invalid):
		return []string{fmt.Sprintf("%s: %s: %v", item.Where, item.Key, err)}
	}
	for _, f := range invalid.Fields {
		field := f.Field
		if field != "" {
			field += ": "
		}
		out = append(out, fmt.Sprintf("%s: %s: %s%s", item.Where, item.Key, field, f.Error))
	}
	return out
}

// wrong writes a line about a value.
func (c *cli) wrong(format string, args ...any) {
	fmt.Fprintln(c.stdout, safetext.Line(fmt.Sprintf(format, args...)))
}

func be(n int, what string) string {
	if n == 1 {
		return plural(n, what) + " is"
	}
	return plural(n, what) + " are"
}
