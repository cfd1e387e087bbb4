package manpage_test

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/manpage"
)

const want = `.TH TOOL 8 "" "Plumb 1.0~x"
.SH NAME
tool \- Do things
.SH SYNOPSIS
.B tool
.SH DESCRIPTION
.PP
It does a\-b with \en.
\&.TH is a line like others.
.PP
.nf
  as it is
.fi
And on.
.SH OPTIONS
.TP
.B \-d, \-\-dir
where <dir>/x is (default /run)
.SH COMMANDS
.SS tool go [flags]
.PP
Go.
.TP
.B \-\-fast
not slowly
.PP
Examples:
.PP
.nf
  tool go
.fi
.SH SEE ALSO
other(1)
`

func TestPage(t *testing.T) {
	nothing := func(*cobra.Command, []string) {}
	root := &cobra.Command{Use: "tool", Short: "Do things", Run: nothing,
		Long: "It does a-b with \\n.\n.TH is a line like others.\n\n  as it is\nAnd on."}
	root.PersistentFlags().StringP("dir", "d", "/run", "where <dir>/x is")
	run := &cobra.Command{Use: "go", Short: "Go", Example: "  tool go", Run: nothing}
	run.Flags().Bool("fast", false, "not slowly")
	root.AddCommand(run, &cobra.Command{Use: "secret", Hidden: true, Run: nothing})
	var b strings.Builder
	manpage.Page{Command: root, Section: 8, Version: "1.0~x", SeeAlso: []string{"other(1)"}}.Write(&b)
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}
