// Package manpage writes what a program says of itself with --help as a page for man(1).
package manpage

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is a page about a program and all its commands.
type Page struct {
	Command *cobra.Command
	Section int
	Version string
	// SeeAlso are other pages, as name(section).
	SeeAlso []string
}

// Write writes the page in the language of man(7). Help texts are no Markdown: a line
// that is indented stays as it is, all others are flowing text.
func (p Page) Write(w io.Writer) {
	root := p.Command
	fmt.Fprintf(w, ".TH %s %d \"\" \"Plumb %s\"\n", strings.ToUpper(root.Name()), p.Section, escape(p.Version))
	fmt.Fprintf(w, ".SH NAME\n%s \\- %s\n", escape(root.Name()), escape(root.Short))
	fmt.Fprintf(w, ".SH SYNOPSIS\n.B %s\n", escape(root.UseLine()))
	fmt.Fprint(w, ".SH DESCRIPTION\n")
	writeText(w, root.Long)
	fmt.Fprint(w, ".SH OPTIONS\n")
	writeFlags(w, root.LocalNonPersistentFlags())
	writeFlags(w, root.PersistentFlags())
	fmt.Fprint(w, ".SH COMMANDS\n")
	for _, cmd := range root.Commands() {
		writeCommand(w, cmd)
	}
	writeExample(w, ".SH EXAMPLES\n", root.Example)
	fmt.Fprintf(w, ".SH SEE ALSO\n%s\n", escape(strings.Join(p.SeeAlso, ", ")))
}

// writeCommand writes a command and all below it.
func writeCommand(w io.Writer, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	if cmd.Runnable() {
		fmt.Fprintf(w, ".SS %s\n", escape(cmd.UseLine()))
		writeText(w, cmd.Short+".")
		writeText(w, cmd.Long)
		writeFlags(w, cmd.LocalNonPersistentFlags())
		writeExample(w, ".PP\nExamples:\n", cmd.Example)
	}
	for _, sub := range cmd.Commands() {
		writeCommand(w, sub)
	}
}

// writeText writes paragraphs.
func writeText(w io.Writer, text string) {
	if text == "" {
		return
	}
	fmt.Fprint(w, ".PP\n")
	fixed := false
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		line = strings.TrimSuffix(line, "\n")
		if indented := strings.HasPrefix(line, "  "); indented != fixed && line != "" {
			fixed = indented
			fmt.Fprint(w, map[bool]string{true: ".nf\n", false: ".fi\n"}[fixed])
		}
		if line == "" {
			fmt.Fprint(w, ".PP\n")
			continue
		}
		fmt.Fprintln(w, escape(line))
	}
	if fixed {
		fmt.Fprint(w, ".fi\n")
	}
}

func writeExample(w io.Writer, heading, example string) {
	if example != "" {
		fmt.Fprint(w, heading)
		writeText(w, example)
	}
}

func writeFlags(w io.Writer, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(w, ".TP\n.B %s\n%s\n", escape(name), escape(f.Usage+defaultOf(f)))
	})
}

func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "false", "0", "0s", "[]":
		return ""
	}
	return " (default " + f.DefValue + ")"
}

// escape makes a line of text one that says nothing to the formatter.
func escape(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}
