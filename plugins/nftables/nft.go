package nftables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Namespaces runs what must be done in a namespace; see netlink.Kernel.
type Namespaces interface {
	// Within runs work on a thread of the namespace; writes is how many changes of
	// the kernel it is counted as.
	Within(ns kernel.NS, writes int, work func() error) error
}

// Tables are the tables of nftables on this host.
type Tables struct {
	namespaces Namespaces
	program    string
}

var _ kernel.Tables = (*Tables)(nil)

// New makes the port. program is nft or its path; "" looks for nft. It is looked for
// when it is needed.
func New(n Namespaces, program string) *Tables {
	if program == "" {
		program = "nft"
	}
	return &Tables{namespaces: n, program: program}
}

// Table reads a table.
func (t *Tables) Table(ctx context.Context, ns kernel.NS, family, name string) (kernel.Table, error) {
	// Stateless: what counters have counted is not what is asked.
	out, err := t.run(ctx, ns, 0, "", "--stateless", "list", "table", family, name)
	var said *complaint
	if errors.As(err, &said) && strings.HasPrefix(said.text, "syntax error") { // nothing but the name can be wrong
		return kernel.Table{}, &kernel.TextError{Field: "table", Text: name, Err: fmt.Errorf("nft cannot list a table of this name, which is a word of its grammar; choose another name: %w", err)}
	}
	if err != nil {
		return kernel.Table{}, fmt.Errorf("list table %s %s: %w", family, name, err)
	}
	return parse(out, family, name)
}

// CreateTable makes a table where there is none.
func (t *Tables) CreateTable(ctx context.Context, ns kernel.NS, table kernel.Table) error {
	return t.load(ctx, ns, scriptOf(table, false))
}

// ReplaceTable makes a table in place of the one that is there.
func (t *Tables) ReplaceTable(ctx context.Context, ns kernel.NS, table kernel.Table) error {
	return t.load(ctx, ns, scriptOf(table, true))
}

// ReplaceElements gives sets and maps of a table other elements.
func (t *Tables) ReplaceElements(ctx context.Context, ns kernel.NS, table kernel.Table, names []string) error {
	return t.load(ctx, ns, elementsOf(table, names))
}

// DeleteTable removes a table.
func (t *Tables) DeleteTable(ctx context.Context, ns kernel.NS, family, name string) error {
	if _, err := t.run(ctx, ns, 1, "", "delete", "table", family, name); err != nil {
		return fmt.Errorf("delete table %s %s: %w", family, name, err)
	}
	return nil
}

// load has nft execute a script, which is all or nothing.
func (t *Tables) load(ctx context.Context, ns kernel.NS, s *script) error {
	_, err := t.run(ctx, ns, 1, s.String(), "-f", "-")
	var said *complaint
	if !errors.As(err, &said) || said.line < 1 || said.line > len(s.about) {
		return err
	}
	if at := s.about[said.line-1]; at != whole {
		return &kernel.TextError{Field: at.field, Text: at.text, Err: err}
	}
	return err
}

// complaint is an error of nft, in its words.
type complaint struct {
	line int // of the script, 0 if it is about none
	text string
	// kernel tells that nft has understood it, but the kernel refuses.
	kernel bool
}

func (c *complaint) Error() string { return "nft: " + c.text }

// Refused reports whether the text was understood, so that it may do another time.
func (c *complaint) Refused() bool { return c.kernel }

func (c *complaint) Is(target error) bool {
	switch target {
	case kernel.ErrNotExist:
		return c.kernel && strings.Contains(c.text, "No such file or directory")
	case kernel.ErrExist:
		return c.kernel && strings.Contains(c.text, "File exists")
	case kernel.ErrUnsupported:
		return c.kernel && strings.Contains(c.text, "not supported")
	}
	return false
}

// run runs nft in a namespace and returns what it prints.
func (t *Tables) run(ctx context.Context, ns kernel.NS, writes int, input string, args ...string) (string, error) {
	path, err := exec.LookPath(t.program)
	if err != nil {
		return "", fmt.Errorf("%s is %w on this host; Debian has it in the package nftables", t.program, kernel.ErrNoProgram)
	}
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"LC_ALL=C"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	// It begins where the thread is that starts it.
	if err = t.namespaces.Within(ns, writes, cmd.Start); err != nil {
		return "", err
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &exit) && errs.Len() > 0:
		return "", complain(errs.String())
	case err != nil:
		return "", fmt.Errorf("nft: %w", err)
	}
	return out.String(), nil
}

// where is how nft says which line it means: /dev/stdin:5:22-24: Error: ...
var where = regexp.MustCompile(`^(?:[^:]*:(\d+):[0-9-]+: )?Error: (.*)$`)

// complain reads the first error of nft: what it says, and the line with its mark.
func complain(text string) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	m := where.FindStringSubmatch(lines[0])
	if m == nil {
		return &complaint{text: strings.Join(lines, " ")}
	}
	c := &complaint{text: m[2]}
	c.line, _ = strconv.Atoi(m[1])
	reason, refused := strings.CutPrefix(c.text, "Could not process rule: ")
	c.kernel = refused || strings.HasPrefix(c.text, "No such file or directory")
	if c.text = reason; len(lines) > 2 {
		c.text += ", at " + marked(lines[1], lines[2])
	}
	return c
}

// marked is the part of a line below which nft has put its marks, or its end.
func marked(line, marks string) string {
	from := strings.IndexByte(marks, '^')
	to := strings.LastIndexByte(marks, '^') + 1
	if from < 0 || from >= len(line) {
		return "its end"
	}
	return strconv.Quote(line[from:min(to, len(line))])
}
