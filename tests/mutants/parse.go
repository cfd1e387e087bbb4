package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutant is a bug and where it is put.
type mutant struct {
	name  string // "B01-false-success"
	title string // what goes wrong
	from  string // where the bug is known from
	kill  string // the one test that must find it; empty: any may
	edits []edit
}

// edit replaces a text that occurs once in a file.
type edit struct {
	file, old, new string
}

// read reads all lists that match; no name is in two of them.
func read(glob string) (all []mutant, err error) {
	lists, err := filepath.Glob(glob)
	if err != nil {
		return nil, err
	}
	if len(lists) == 0 {
		return nil, fmt.Errorf("there is no list %s: run it in the root of the repository", glob)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil {
			return nil, err
		}
		ms, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list, err)
		}
		all = append(all, ms...)
	}
	return all, check(all)
}

// parse reads a list of mutants:
//
//	mutant NAME what goes wrong
//	from where the bug is known from
//	kill TestName/that_must_find_it
//	file scheduler/settle.go
//	<<<
//	the text as it is
//	===
//	the text with the bug
//	>>>
//
// "kill" is optional; "file" and what follows may be repeated. Lines that begin
// with # and empty lines between mutants do not count.
func parse(text string) ([]mutant, error) {
	var out []mutant
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		word, rest, _ := strings.Cut(lines[i], " ")
		if word != "mutant" && len(out) == 0 && word != "" && word[0] != '#' {
			return nil, fmt.Errorf("line %d: %q comes before the first mutant", i+1, word)
		}
		switch {
		case word == "", word[0] == '#':
		case word == "mutant":
			name, title, _ := strings.Cut(rest, " ")
			out = append(out, mutant{name: name, title: title})
		case word == "from":
			out[len(out)-1].from = rest
		case word == "kill":
			out[len(out)-1].kill = rest
		case word == "file":
			e := edit{file: rest}
			var err error
			if e.old, e.new, i, err = parseEdit(lines, i+1); err != nil {
				return nil, err
			}
			m := &out[len(out)-1]
			m.edits = append(m.edits, e)
		default:
			return nil, fmt.Errorf("line %d: %q is none of mutant, from, kill, file", i+1, word)
		}
	}
	return out, check(out)
}

// parseEdit reads the two texts; it returns the line on which they end.
func parseEdit(lines []string, i int) (was, now string, end int, err error) {
	section := map[string]int{}
	marks := []string{"<<<", "===", ">>>"}
	for at := i; at < len(lines) && len(section) < len(marks); at++ {
		if lines[at] == marks[len(section)] {
			section[lines[at]] = at
		}
	}
	if len(section) < len(marks) || section["<<<"] != i {
		return "", "", 0, fmt.Errorf("line %d: after file come <<<, the text, ===, the other text, >>>", i+1)
	}
	join := func(from, to int) string { return strings.Join(lines[from+1:to], "\n") }
	return join(section["<<<"], section["==="]), join(section["==="], section[">>>"]), section[">>>"], nil
}

func check(ms []mutant) error {
	seen := map[string]bool{}
	for _, m := range ms {
		switch {
		case seen[m.name]:
			return fmt.Errorf("two mutants are called %s", m.name)
		case m.title == "" || m.from == "" || len(m.edits) == 0:
			return fmt.Errorf("mutant %s needs a title, from and a file", m.name)
		}
		seen[m.name] = true
	}
	return nil
}
