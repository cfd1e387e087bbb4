package arch

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced  = regexp.MustCompile("(?ms)^```.*?^```$")
	// sourceName is a path of ours in a text: models/keys.go, tests/demo/demo.sh.
	sourceName = regexp.MustCompile("`((?:[a-z0-9_.-]+/)+[a-z0-9_]+\\.(?:go|sh|txt|yaml|md|proto))`")
	testName   = regexp.MustCompile(`\b((?:Test|Fuzz|Benchmark)[A-Z]\w*)(?:/([\w-]+))?\b`)
)

// TestLinks: every link of the documentation leads somewhere.
func TestLinks(t *testing.T) {
	for _, name := range files(t, ".md") {
		text := fenced.ReplaceAllString(read(t, name), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			file := name
			if target != "" {
				file = path.Join(path.Dir(name), target)
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s: the link %s leads nowhere", name, m[1])
			} else if anchor != "" && !anchors(read(t, file))[anchor] {
				t.Errorf("%s: %s has no heading %s", name, file, anchor)
			}
		}
	}
}

// anchors are the headings as links name them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case strings.ContainsRune("`*:,.()/'?!<>=", r):
				return -1
			}
			return r
		}, strings.ToLower(m[1]))
		all[name] = true
	}
	return all
}

// TestNamesInDocs: files and tests that the documentation names are there.
func TestNamesInDocs(t *testing.T) {
	tests := testNames(t)
	for _, name := range files(t, ".md") {
		text := read(t, name)
		for _, m := range sourceName.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
		for _, m := range testName.FindAllStringSubmatch(text, -1) {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
		}
	}
}

func testNames(t *testing.T) map[string]bool {
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	all := map[string]bool{}
	for _, name := range files(t, ".go") {
		if !strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, m := range declared.FindAllStringSubmatch(read(t, name), -1) {
			all[m[1]] = true
		}
	}
	return all
}

// TestProgramInReadme: the program in the README is the one that is compiled and
// run, to the letter, and so is what it prints.
func TestProgramInReadme(t *testing.T) {
	readme := read(t, "README.md")
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(readme, -1)
	if len(blocks) != 1 || blocks[0][1] != read(t, "examples/minimal/main.go") {
		t.Error("the Go code of the README is not examples/minimal/main.go and nothing else")
	}
	_, output, _ := strings.Cut(read(t, "examples/minimal/main_test.go"), "// Output:\n")
	output, _, _ = strings.Cut(output, "\n}")
	output = regexp.MustCompile(`(?m)^\t// ?`).ReplaceAllString(output, "")
	if !strings.Contains(readme, "prints:\n\n```\n"+output+"\n```\n") {
		t.Errorf("the README does not show what the program prints:\n%s", output)
	}
}

// TestCommandsAreDocumented: docs/cli.md is what agentctl says of itself.
func TestCommandsAreDocumented(t *testing.T) {
	if string(command(t, "go", "run", "./cmd/agentctl", "gen-docs")) != read(t, "docs/cli.md") {
		t.Error("docs/cli.md is out of date: make docs")
	}
}

// TestScriptsRun: what the Makefile and tests call can be executed.
func TestScriptsRun(t *testing.T) {
	for _, name := range []string{".ci/run", ".ci/prepare", "tests/demo/demo.sh", "tests/demo/image.sh", "tests/install/machine.sh", "deploy/prometheus/serve-metrics"} {
		if st, err := os.Stat(filepath.Join(root, name)); err != nil || st.Mode()&0o111 == 0 {
			t.Errorf("%s cannot be executed: %v", name, err)
		}
	}
}

// block is a piece of a file that a page shows.
var block = regexp.MustCompile("(?ms)^```(?:go|proto)\n(.*?)^```$")

// TestPiecesOfFiles: what the page about kinds shows of files is in them.
func TestPiecesOfFiles(t *testing.T) {
	const page = "docs/adding-a-kind.md"
	text := read(t, page)
	pieces := block.FindAllStringSubmatchIndex(text, -1)
	if len(pieces) < 10 {
		t.Errorf("%s shows %d pieces", page, len(pieces))
	}
	for _, m := range pieces {
		named := sourceName.FindAllStringSubmatch(text[:m[0]], -1)
		if file := named[len(named)-1][1]; !strings.Contains(read(t, file), text[m[2]:m[3]]) {
			t.Errorf("%s shows what is not in %s:\n%s", page, file, text[m[2]:m[3]])
		}
	}
}

// TestDecisions: each page has one row in the table, which has its title, and the reverse.
func TestDecisions(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| \[(\d+)\]\(([^)]+)\) \| (.+) \|$`)
	rows := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(read(t, "docs/decisions/README.md"), -1) {
		if !strings.HasPrefix(m[2], m[1]+"-") || rows[m[2]] != "" {
			t.Errorf("the row of %s is wrong or not the only one", m[2])
		}
		rows[m[2]] = m[3]
	}
	for _, name := range files(t, ".md") {
		if dir, file := path.Split(name); dir == "docs/decisions/" && file != "README.md" {
			title, _, _ := strings.Cut(read(t, name), "\n")
			if title != "# "+rows[file] {
				t.Errorf("%s has the title %q, and its row says %q", name, title, rows[file])
			}
			delete(rows, file)
		}
	}
	for file := range rows {
		t.Errorf("%s has a row and no page", file)
	}
}
