package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

func newGraph(c *cli) *cobra.Command {
	var req apiv1.GraphRequest
	cmd := &cobra.Command{
		Use:   "graph",
		Short: "Draw the dependency graph with states",
		Long: `Graph prints the keys with their states and what each needs: as dot for
Graphviz (default), as mermaid for Markdown, as svg for a browser, or as json.
--around shows only a key and what is near.

A solid edge is a need, a dashed one a need that is not satisfied, a dotted one
leads from a derived key to its base. In the svg a derived key stands in the box of its
base, and no line crosses a box that it does not lead to.`,
		Example: `  agentctl graph -o svg > graph.svg
  agentctl graph --around interface/web --depth 1 -o mermaid`,
		Args:        noArgs,
		Annotations: map[string]string{formatsKey: "dot mermaid svg json yaml table"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			g, err := c.agent().Graph(cmd.Context(), &req)
			if err != nil {
				return err
			}
			draw := writeDot
			switch c.output {
			case "mermaid":
				draw = writeMermaid
			case "svg":
				draw = writeSVG
			}
			return c.show(answer{json: jsonObject(g), table: func(w io.Writer, _ bool) { draw(w, g) }})
		},
	}
	cmd.Flags().StringVar(&req.Around, "around", "", "only this key and what is around it")
	cmd.Flags().Uint32Var(&req.Depth, "depth", 2, "how many edges away from --around")
	cmd.RegisterFlagCompletionFunc("around", c.keysAndKinds)
	return cmd
}

// fill is the color of a state in drawings.
func fill(state string) string {
	switch state {
	case "configured", "observed":
		return "palegreen"
	case "failed", "invalid", "retrying", "unimplemented":
		return "lightpink"
	case "absent", "removed", "paused", "leftover", "any":
		return "lightgrey"
	}
	return "khaki"
}

func writeDot(w io.Writer, g *apiv1.GraphResponse) {
	fmt.Fprintln(w, "digraph plumb {\n  rankdir=LR\n  node [shape=box style=filled]")
	for _, n := range g.Nodes {
		fmt.Fprintf(w, "  %s [label=%s fillcolor=%s]\n", dotText(n.Key), dotText(n.Key, n.State), fill(n.State))
	}
	for _, e := range g.Edges {
		style := "solid"
		switch {
		case e.Derived:
			style = "dotted"
		case !e.Satisfied:
			style = "dashed"
		}
		fmt.Fprintf(w, "  %s -> %s [style=%s tooltip=%s]\n", dotText(e.From), dotText(e.To), style, dotText(e.Why))
	}
	fmt.Fprintln(w, "}")
}

// dotText is a quoted text of the dot language, of one line or several. A backslash
// begins escapes of its own in labels, and stands for itself if it is doubled.
func dotText(lines ...string) string {
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for i := range lines {
		lines[i] = quote.Replace(lines[i])
	}
	return `"` + strings.Join(lines, `\n`) + `"`
}

// mermaidText is a text within quotes. Mermaid makes HTML of it, and reads entities
// that begin with # in place of &.
func mermaidText(s string) string {
	return strings.NewReplacer(`"`, "#quot;", "#", "#35;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;").Replace(s)
}

func writeMermaid(w io.Writer, g *apiv1.GraphResponse) {
	fmt.Fprintln(w, "graph LR")
	id := map[string]string{}
	for i, n := range g.Nodes {
		id[n.Key] = fmt.Sprintf("n%d", i)
		fmt.Fprintf(w, "  n%d[\"%s<br/>%s\"]:::%s\n", i, mermaidText(n.Key), mermaidText(n.State), fill(n.State))
	}
	for _, e := range g.Edges {
		arrow := "-->"
		if e.Derived || !e.Satisfied {
			arrow = "-.->"
		}
		label := ""
		if e.Why != "" {
			label = "|\"" + mermaidText(e.Why) + "\"|"
		}
		fmt.Fprintf(w, "  %s %s%s %s\n", id[e.From], arrow, label, id[e.To])
	}
	for _, color := range []string{"palegreen", "lightpink", "lightgrey", "khaki"} {
		fmt.Fprintf(w, "  classDef %s fill:%s\n", color, color)
	}
}
