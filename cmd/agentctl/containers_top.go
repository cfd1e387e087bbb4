package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// topRows is how many containers a terminal shows, of which nobody says how high it is.
const topRows = 20

func newContainersTop(c *cli) *cobra.Command {
	var tables, rows int
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show how much each container uses",
		Long: `Top shows how much each running container uses, the busiest first: processor, as a
share of one; working set and what it can have at most; in how many periods its quota
was used up; bytes in a second over the network and to and from devices.

On a terminal the table is drawn anew until you interrupt it; elsewhere, and with other
formats, there is one. What a container does is read again for each table, so figures
of a second are those since the table before.`,
		Example: `  agentctl containers top
  agentctl containers top -n 1
  agentctl containers top -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			live := c.terminal && (c.output == "table" || c.output == "wide")
			switch {
			case every < time.Second:
				return usage(cmd, "--every %s: want a second at least", every)
			case tables < 0 || rows < 0:
				return usage(cmd, "want numbers that are not negative")
			case !cmd.Flag("number").Changed && !live:
				tables = 1
			}
			if !cmd.Flag("rows").Changed && live {
				rows = topRows
			}
			return c.top(cmd.Context(), live && tables != 1, tables, rows, every)
		},
	}
	cmd.Flags().IntVarP(&tables, "number", "n", 0, "end after so many tables (default: none on a terminal, else 1)")
	cmd.Flags().IntVar(&rows, "rows", 0, "only so many containers, the busiest; 0 for all (default: 20 on a terminal)")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "time between two tables")
	return cmd
}

// top shows tables until there were enough of them; 0 for until it is interrupted.
func (c *cli) top(ctx context.Context, redraw bool, tables, rows int, every time.Duration) error {
	for n := 1; ; n++ {
		out, err := c.agent().Resources(ctx, &apiv1.ResourcesRequest{})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := c.showTop(out, redraw, rows); err != nil {
			return err
		}
		if n == tables {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(every):
		}
	}
}

// What a terminal does: go to its beginning, clear to the end of a line, and all below.
const (
	home      = "\x1b[H"
	clearLine = "\x1b[K\n"
	clearRest = "\x1b[J"
)

func (c *cli) showTop(out *apiv1.ResourcesResponse, redraw bool, rows int) error {
	all := out.Containers
	slices.SortStableFunc(all, func(a, b *apiv1.ContainerResources) int {
		return cmp.Compare(b.Rates.GetCpuNanoCores(), a.Rates.GetCpuNanoCores())
	})
	if rows > 0 && len(all) > rows {
		all = all[:rows]
	}
	c.runtimes(nil, out.Unknown)
	return c.show(answer{
		json:  jsonList(all),
		names: namesOf(all, func(x *apiv1.ContainerResources) string { return x.Runtime + ":" + x.ContainerId }),
		table: func(w io.Writer, wide bool) {
			if !redraw {
				writeTop(w, all, wide)
				return
			}
			var b bytes.Buffer // at once, so that it does not flicker
			writeTop(&b, all, wide)
			io.WriteString(w, home+strings.ReplaceAll(b.String(), "\n", clearLine)+clearRest)
		},
	})
}

func writeTop(w io.Writer, all []*apiv1.ContainerResources, wide bool) {
	t := newTable("CONTAINER", "CPU", "MEMORY", "OF", "THROTTLED", "RECEIVE/S", "TRANSMIT/S", "READ/S", "WRITE/S", "PIDS", "NOTES")
	for _, x := range all {
		cells := []string{"-", "-", "-", "-", "-", "-", "-", "-", "-"}
		if r := x.Rates; r != nil {
			cells[0] = cpuText(r.CpuNanoCores)
			if x.Limits.GetCpuQuotaUs() > 0 {
				cells[3] = fmt.Sprintf("%d%%", r.ThrottledPercent)
			}
			if len(x.Last.GetInterfaces()) > 0 {
				cells[4], cells[5] = bytesText(r.Receive), bytesText(r.Transmit)
			}
			cells[6], cells[7] = bytesText(r.Read), bytesText(r.Write)
		}
		if m := x.Last.GetMemory(); m != nil {
			cells[1], cells[2] = bytesText(m.WorkingSet), bytesText(x.Limits.GetMemoryBound())
		}
		if x.Last.GetPids() > 0 {
			cells[8] = fmt.Sprint(x.Last.GetPids())
		}
		t.add(append(append([]string{containerName(x.Name, x.ContainerId, wide)}, cells...), x.Unread)...)
	}
	t.write(w, false)
}
