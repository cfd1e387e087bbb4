package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/safetext"
)

func newKV(c *cli) *cobra.Command {
	return group(&cobra.Command{
		Use:   "kv",
		Short: "Read and write the store as it is",
		Long: `KV reads and writes the agent's part of etcd as it is, without any check. Keys
stand without the agent's prefix: config/interface/web. For intent, put, delete
and apply are safer.`,
		Example: "  agentctl kv list config/",
	}, newKVGet(c), newKVPut(c), newKVDelete(c), newKVList(c))
}

func newKVGet(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "get KEY",
		Short:   "Print a value of the store",
		Long:    "KV get prints the value of a key of the store, byte by byte; on a terminal control characters are shown as escapes. An unknown key is an error.",
		Example: "  agentctl kv get config/interface/web",
		Args:    oneArg("key of the store"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.asIs = true
			kv, err := c.agent().GetKV(cmd.Context(), &apiv1.GetKVRequest{Key: args[0]})
			if err != nil {
				return err
			}
			return c.show(answer{json: jsonObject(kv), names: []string{kv.Key}, table: func(w io.Writer, _ bool) {
				value := strings.TrimSuffix(kv.Value, "\n") + "\n"
				if len(kv.Raw) > 0 {
					value = string(kv.Raw)
				}
				if c.terminal {
					value = safetext.Text(value)
				}
				io.WriteString(w, value)
			}})
		},
	}
}

func newKVPut(c *cli) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "put KEY [-f FILE|VALUE]",
		Short: "Write a value into the store, unchecked",
		Long:  "KV put writes a key of the store as it is, without any check. The value is an argument, a file, or stdin with -f -.",
		Example: `  agentctl kv put config/interface/web '{"dummy": {}}'
  agentctl kv put notes/today -f notes.txt`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 || (len(args) == 2) == (path != "") {
				return usage(cmd, "give a key, and its value as an argument or with -f")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req := &apiv1.PutKVRequest{Key: args[0]}
			if path != "" {
				data, err := c.readFile(path)
				if err != nil {
					return err
				}
				req.Raw = data
			} else {
				req.Value = args[1]
			}
			out, err := c.agent().PutKV(cmd.Context(), req)
			if err != nil {
				return err
			}
			c.tell("written at revision %d", out.Revision)
			return nil
		},
	}
	cmd.Flags().StringVarP(&path, "file", "f", "", "file with the value, - for stdin")
	return formats(noFormats, cmd)
}

func newKVDelete(c *cli) *cobra.Command {
	return formats(noFormats, &cobra.Command{
		Use:     "delete KEY",
		Short:   "Delete a key of the store",
		Long:    "KV delete deletes a key of the store. A key that is not there is no error.",
		Example: "  agentctl kv delete notes/today",
		Args:    oneArg("key of the store"),
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().DeleteKV(cmd.Context(), &apiv1.DeleteKVRequest{Key: args[0]})
			if err != nil {
				return err
			}
			if out.Revision == 0 {
				c.tell("it was not there")
			} else {
				c.tell("deleted at revision %d", out.Revision)
			}
			return nil
		},
	})
}

func newKVList(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "list [PREFIX]",
		Short: "List keys of the store",
		Long:  "KV list shows the keys of the store that begin with the prefix, and their values.",
		Example: `  agentctl kv list
  agentctl kv list config/route/ -o name`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, "give one prefix")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			out, err := c.agent().ListKV(cmd.Context(), &apiv1.ListKVRequest{Prefix: strings.Join(args, "")})
			if err != nil {
				return err
			}
			return c.show(answer{
				json:  jsonList(out.Entries),
				names: namesOf(out.Entries, (*apiv1.KV).GetKey),
				table: func(w io.Writer, _ bool) {
					t := newTable("KEY", "REVISION", "VALUE")
					for _, kv := range out.Entries {
						v := strings.ReplaceAll(kv.Value, "\n", " ")
						if len(kv.Raw) > 0 {
							v = fmt.Sprintf("%q", kv.Raw)
						}
						t.add(kv.Key, fmt.Sprint(kv.Revision), v)
					}
					if len(out.Entries) > 0 {
						t.write(w, false)
					}
				},
			})
		},
	}
}
