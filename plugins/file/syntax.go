package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// parseYAML reads all documents of a text. With an error come those before it.
func parseYAML(data []byte) (roots []*yaml.Node, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var root yaml.Node
		switch err := dec.Decode(&root); {
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return roots, err
		}
		roots = append(roots, &root)
	}
}

var (
	yamlPrefix = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	quoted     = regexp.MustCompile(`'.*'`)
)

// complaint is what the parser says, without the line.
func complaint(err error) string {
	if err == nil {
		return ""
	}
	return yamlPrefix.ReplaceAllString(err.Error(), "")
}

// hint is the line that the parser names, 0 if none.
func hint(err error) int {
	found := yamlPrefix.FindStringSubmatch(err.Error())
	if found == nil {
		return 0
	}
	line, _ := strconv.Atoi(found[1]) // none is 0
	return line
}

// yamlError puts the place in front, where editors find it, and quotes nothing.
func yamlError(data []byte, err error, name string) error {
	text := complaint(err)
	line := brokenAt(data, text, hint(err))
	if !strings.HasPrefix(text, "did not find expected") { // that quotes YAML's own signs
		text = quoted.ReplaceAllStringFunc(text, func(q string) string { return "'" + shown(q[1:len(q)-1]) + "'" })
	}
	if line == 0 {
		return fmt.Errorf("%s: not valid YAML: %s", name, text)
	}
	if tabbed(data, line) {
		text = "a tab stands where the line is indented; YAML takes only blanks there"
	}
	return fmt.Errorf("%s:%d: not valid YAML: %s", name, line, text)
}

// maxSearched bounds the texts in which the line of an error is looked for.
const maxSearched = 1 << 20

// brokenAt finds the first line with which the text is broken as it is as a whole; 0 if
// that takes too long. The parser's hint is another line: that of what it was within, or
// one before, and for some errors there is none.
func brokenAt(data []byte, text string, hint int) int {
	if len(data) > maxSearched {
		return 0
	}
	var ends []int // of every line
	for at := 0; at < len(data); {
		n := bytes.IndexByte(data[at:], '\n') + 1
		if n == 0 {
			n = len(data) - at
		}
		at += n
		ends = append(ends, at)
	}
	from := min(max(hint-2, 0), len(ends)-1)
	return min(from+sort.Search(len(ends)-from, func(i int) bool {
		_, err := parseYAML(data[:ends[from+i]])
		return complaint(err) == text
	})+1, len(ends))
}

// tabbed reports whether the line begins with blanks of which one is a tab.
func tabbed(data []byte, line int) bool {
	text := string(bytes.Split(data, []byte("\n"))[line-1])
	indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
	return strings.Contains(indent, "\t")
}
