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
	var everything bool
	var every time.Duration
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show how much each container uses",
		Long: `Top shows how much each running container uses, the busiest first: processor, as a
share of one; working set and what it can have at most; in how many periods its quota
was used up; bytes in a second over the network and to and from devices.

With --all it also shows the machine, as /, and its other cgroups, as /system.slice, down
to the depth that the agent's setting resources-depth says.

On a terminal the table is drawn anew until you interrupt it; elsewhere, and with other
formats, there is one. What a container does is read again for each table, so figures
of a second are those since the table before.`,
		Example: `  agentctl containers top
  agentctl containers top -n 1
  agentctl containers top --all
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
			t := top{cli: c, everything: everything, redraw: live && tables != 1, rows: rows}
			return t.run(cmd.Context(), tables, every)
		},
	}
	cmd.Flags().BoolVar(&everything, "all", false, "also the machine and its other cgroups")
	cmd.Flags().IntVarP(&tables, "number", "n", 0, "end after so many tables (default: none on a terminal, else 1)")
	cmd.Flags().IntVar(&rows, "rows", 0, "only so many lines, the busiest; 0 for all (default: 20 on a terminal)")
	cmd.Flags().DurationVar(&every, "every", 2*time.Second, "time between two tables")
	return cmd
}

// top is what the tables show.
type top struct {
	*cli
	everything, redraw bool
	rows               int // 0 for all
}

// run shows tables until there were enough of them; 0 for until it is interrupted.
func (t top) run(ctx context.Context, tables int, every time.Duration) error {
	for n := 1; ; n++ {
		out, err := t.agent().Resources(ctx, &apiv1.ResourcesRequest{All: t.everything})
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if err := t.draw(out); err != nil {
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

func (t top) draw(out *apiv1.ResourcesResponse) error {
	all := slices.Concat(out.Containers, out.Cgroups)
	slices.SortStableFunc(all, func(a, b *apiv1.ContainerResources) int {
		return cmp.Compare(b.Rates.GetCpuNanoCores(), a.Rates.GetCpuNanoCores())
	})
	if t.rows > 0 && len(all) > t.rows {
		all = all[:t.rows]
	}
	t.runtimes(nil, out.Unknown)
	return t.show(answer{
		json:  jsonList(all),
		names: namesOf(all, resourcesKey),
		table: func(w io.Writer, wide bool) {
			write := func(w io.Writer) {
				writeTop(w, "CONTAINER", all, wide)
				writeLeftOut(w, out.CgroupsLeftOut)
			}
			if !t.redraw {
				write(w)
				return
			}
			var b bytes.Buffer // at once, so that it does not flicker
			write(&b)
			io.WriteString(w, home+strings.ReplaceAll(b.String(), "\n", clearLine)+clearRest)
		},
	})
}

// resourcesKey is the key of a container, or the path of another cgroup.
func resourcesKey(x *apiv1.ContainerResources) string {
	if x.ContainerId == "" {
		return x.Cgroup
	}
	return x.Runtime + ":" + x.ContainerId
}

// writeLeftOut says how many cgroups are not told of.
func writeLeftOut(w io.Writer, n uint32) {
	if n > 0 {
		fmt.Fprintf(w, "%s more or deeper: not shown\n", plural(int(n), "cgroup"))
	}
}

// writeTop shows a line for each; the first column has that name.
func writeTop(w io.Writer, first string, all []*apiv1.ContainerResources, wide bool) {
	t := newTable(first, "CPU", "MEMORY", "OF", "THROTTLED", "RECEIVE/S", "TRANSMIT/S", "READ/S", "WRITE/S", "PIDS", "NOTES")
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
		name := x.Cgroup
		if x.ContainerId != "" {
			name = containerName(x.Name, x.ContainerId, wide)
		}
		t.add(append(append([]string{name}, cells...), x.Unread)...)
	}
	t.write(w, false)
}
