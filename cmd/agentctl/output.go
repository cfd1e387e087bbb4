package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/safetext"
)

// answer is the data of a command in all forms that it has.
type answer struct {
	// json makes what -o json, yaml and templates show.
	json func() []byte
	// table writes -o table and wide.
	table func(w io.Writer, wide bool)
	// names are what -o name lists; nil if the data has no names.
	names []string
}

// formatsKey is the annotation with the formats of a command that has not the usual
// ones; noFormats is that of one that writes a text of its own, or nothing.
const (
	formatsKey = "formats"
	noFormats  = "none"
)

// formats says which formats a command has instead of the usual ones.
func formats(all string, cmd *cobra.Command) *cobra.Command {
	cmd.Annotations = map[string]string{formatsKey: all}
	return cmd
}

// checkOutput refuses a bad -o before anything is done.
func (c *cli) checkOutput(cmd *cobra.Command) error {
	own, flag := cmd.Annotations[formatsKey], cmd.Flag("output")
	if own != "" && (flag == nil || !flag.Changed) {
		return nil
	}
	if own == noFormats {
		return usage(cmd, "-o means nothing here: this has one form only")
	}
	formats := []string{"table", "wide", "json", "yaml", "name"}
	if own != "" {
		formats = strings.Fields(own)
	}
	if text, ok := strings.CutPrefix(c.output, "template="); ok && own == "" {
		_, err := parseTemplate(text)
		return err
	}
	if !slices.Contains(formats, c.output) {
		return usage(cmd, "unknown output format %q; there are %s", c.output, strings.Join(formats, ", "))
	}
	return nil
}

// show writes the data as it was asked for.
func (c *cli) show(a answer) error {
	switch {
	case c.output == "json":
		_, err := fmt.Fprintf(c.stdout, "%s\n", safetext.JSON(indent(a.json())))
		return err
	case c.output == "yaml":
		text, err := toYAML(a.json())
		if err != nil {
			return err
		}
		_, err = c.stdout.Write(text)
		return err
	case c.output == "name":
		if a.names == nil {
			return fmt.Errorf("-o name: this has no names; use -o json")
		}
		for _, n := range a.names {
			fmt.Fprintln(c.stdout, n)
		}
		return nil
	case strings.HasPrefix(c.output, "template="):
		return c.showTemplate(a.json())
	}
	a.table(c.stdout, c.output == "wide")
	return nil
}

func indent(b []byte) []byte {
	var out bytes.Buffer
	if json.Indent(&out, b, "", "  ") != nil {
		return b
	}
	return out.Bytes()
}

// toYAML keeps the order of fields: JSON is YAML, it only wants another dress.
func toYAML(b []byte) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(safetext.JSON(b), &root); err != nil {
		return nil, err
	}
	undress(&root)
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&root); err != nil {
		return nil, err
	}
	// What YAML would print as it is stands in quotes, where escapes mean the same.
	return []byte(safetext.Text(out.String())), nil
}

// undress drops the braces, brackets and needless quotes.
func undress(n *yaml.Node) {
	if len(n.Content) > 0 || n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	if n.Kind == yaml.ScalarNode && safetext.Text(n.Value) != n.Value {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, child := range n.Content {
		undress(child)
	}
}

// showTemplate runs a template over the data as -o json shows it.
func (c *cli) showTemplate(data []byte) error {
	t, err := parseTemplate(strings.TrimPrefix(c.output, "template="))
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, shown(v)); err != nil {
		return fmt.Errorf("template: %w", err)
	}
	line := strings.ReplaceAll(out.String(), "<no value>", "") // what is absent is empty
	if !strings.HasSuffix(line, "\n") && line != "" {
		line += "\n"
	}
	_, err = io.WriteString(c.stdout, line)
	return err
}

// text is a text of an answer. A template that prints it prints what is safe to read.
type text string

func (t text) String() string { return safetext.Line(string(t)) }

// shown makes the texts of an answer ones for templates.
func shown(v any) any {
	switch v := v.(type) {
	case string:
		return text(v)
	case []any:
		for i := range v {
			v[i] = shown(v[i])
		}
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[safetext.Line(k)] = shown(e)
		}
		return out
	}
	return v
}

func parseTemplate(format string) (*template.Template, error) {
	t, err := template.New("output").Funcs(template.FuncMap{
		"json": func(v any) (string, error) { b, err := json.Marshal(v); return string(safetext.JSON(b)), err },
	}).Parse(format)
	if err != nil {
		return nil, fmt.Errorf("-o template: %w; fields have the names of -o json, for example {{range .}}{{.key}} {{end}}", err)
	}
	return t, nil
}

// jsonObject is the JSON of a message.
func jsonObject(m proto.Message) func() []byte { return func() []byte { return apiv1.JSON(m) } }

// jsonList is that of a list of messages.
func jsonList[M proto.Message](list []M) func() []byte {
	return func() []byte {
		out := []byte("[")
		for i, m := range list {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, apiv1.JSON(m)...)
		}
		return append(out, ']')
	}
}

// noValues reports whether the output leaves out what keys hold, so that the agent need
// not send it.
func (c *cli) noValues() bool {
	return c.output == "table" || c.output == "wide" || c.output == "name"
}

// namesOf lists the names of things, never nil.
func namesOf[M any](list []M, name func(M) string) []string {
	out := make([]string, 0, len(list))
	for _, m := range list {
		out = append(out, name(m))
	}
	return out
}
