package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/safetext"
)

func newReport(c *cli) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Create a support bundle",
		Long: `Report writes a tar.gz with what the agent knows: version, status, keys and why
they are not configured, the graph, history, events, containers, attachments and
metrics, and the last of the log. What looks like a secret is masked, by its name
and by what it is: fields, labels and options whose names say so (also in JSON
within a label), passwords in addresses, private keys, and tokens of well-known
forms. What cannot be read is named in errors.txt, and the exit code is 1.`,
		Example: `  agentctl report
  agentctl report -o - | ssh helper 'cat > report.tar.gz'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c.asIs = true
			text, failed, err := c.report(cmd.Context())
			if err != nil {
				return err
			}
			if file == "-" {
				_, err = c.stdout.Write(text)
			} else if err = writeNew(file, text); err == nil {
				fmt.Fprintln(c.stdout, file)
			}
			if err == nil && failed {
				err = differs
			}
			return err
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "plumb-report.tar.gz", "file to write, - for stdout")
	return cmd
}

// writeNew writes a file that is readable by its owner alone and is not there yet: in a
// directory like /tmp anybody could have put a file or a link of that name there.
func writeNew(file string, text []byte) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already; remove it, or name another file with --output", file)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(file)
	}
	return err
}

// page is one file of a report.
type page struct {
	name string
	read func(ctx context.Context) ([]byte, error)
}

// jsonOf reads an answer of the agent as JSON.
func jsonOf[Q any, A proto.Message](call func(context.Context, *Q) (A, error)) func(context.Context) ([]byte, error) {
	return func(ctx context.Context) ([]byte, error) {
		a, err := call(ctx, new(Q))
		if err != nil {
			return nil, err
		}
		return append(indent(apiv1.JSON(a)), '\n'), nil
	}
}

// pages are all that a report has but why keys are not configured.
func (c *cli) pages() []page {
	a := c.agent()
	http := func(path string) func(context.Context) ([]byte, error) {
		return func(ctx context.Context) ([]byte, error) {
			_, body, err := a.Page(ctx, path)
			return body, err
		}
	}
	return []page{
		{"version.json", jsonOf(a.Version)},
		{"status.json", jsonOf(a.AgentStatus)},
		{"keys.json", jsonOf(a.List)},
		{"graph.json", jsonOf(a.Graph)},
		{"history.json", jsonOf(a.History)},
		{"events.json", jsonOf(a.Events)},
		{"kinds.json", jsonOf(a.Kinds)},
		{"containers.json", jsonOf(a.Containers)},
		{"microservices.json", jsonOf(a.Microservices)},
		{"cni.json", jsonOf(a.CNI)},
		{"log.json", jsonOf(a.Logs)},
		{"log.txt", http("/log")},
		{"readyz.txt", http("/readyz")},
		{"metrics.txt", http("/metrics")},
		{"why.txt", c.whyAll},
	}
}

// most is of how many keys a report says why.
const most = 100

// whyAll says of the keys that are not as they should be why.
func (c *cli) whyAll(ctx context.Context) ([]byte, error) {
	list, err := c.agent().List(ctx, &apiv1.ListRequest{})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	left := most
	for _, k := range list.Keys {
		if k.State == "configured" || k.State == "observed" {
			continue
		}
		if left--; left < 0 {
			fmt.Fprintln(&out, "and more")
			break
		}
		cause, err := c.agent().Why(ctx, &apiv1.WhyRequest{Key: k.Key})
		if err != nil {
			return out.Bytes(), fmt.Errorf("%s: %w", k.Key, err)
		}
		writeCause(&out, cause, "", "")
		writeChain(&out, cause)
		fmt.Fprintln(&out)
	}
	return out.Bytes(), nil
}

// report packs all pages. It fails only if the agent cannot be reached at all.
func (c *cli) report(ctx context.Context) (text []byte, failed bool, err error) {
	var out, errs bytes.Buffer
	zip := gzip.NewWriter(&out)
	pack := tar.NewWriter(zip)
	add := func(name string, text []byte) {
		// Writes to memory do not fail.
		_ = pack.WriteHeader(&tar.Header{Name: "plumb-report/" + name, Mode: 0o600, Size: int64(len(text)), ModTime: c.now()})
		_, _ = pack.Write(text)
	}
	for i, p := range c.pages() {
		text, err := p.read(ctx)
		if err != nil && i == 0 {
			return nil, false, err
		}
		if err != nil {
			fmt.Fprintf(&errs, "%s: %v\n", p.name, c.explain(err))
		}
		add(p.name, mask(p.name, text))
	}
	if errs.Len() > 0 {
		story := mask("errors.txt", errs.Bytes())
		add("errors.txt", story)
		c.stderr.Write(story)
	}
	_ = pack.Close()
	_ = zip.Close()
	return out.Bytes(), errs.Len() > 0, nil
}

// mask masks a page: JSON by its fields, other text by its lines.
func mask(name string, text []byte) []byte {
	if strings.HasSuffix(name, ".json") {
		if out, err := safetext.MaskJSON(text); err == nil {
			return append(safetext.JSON(indent(out)), '\n')
		}
	}
	return []byte(safetext.Text(safetext.Mask(string(text))))
}
