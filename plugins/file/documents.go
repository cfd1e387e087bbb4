package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Document is one value of an intent file, not yet decoded.
type Document struct {
	Key  string
	JSON []byte
	// Line is where in the file the document begins.
	Line int
}

// DecodeValue reads one value, in YAML or JSON, and gives it as JSON. name is for errors,
// as that of DecodeDocuments.
func DecodeValue(data []byte, name string) ([]byte, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	roots, err := parse(data, name, maxTree)
	if err != nil {
		return nil, err
	}
	roots = slices.DeleteFunc(roots, func(n *yaml.Node) bool { return n.Kind == yaml.DocumentNode && len(n.Content) == 0 })
	if len(roots) != 1 {
		return nil, fmt.Errorf("%s: one value is wanted, not %d", name, len(roots))
	}
	w := &jsonWriter{all: newExpansion(data)}
	root := roots[0]
	if root.Kind == yaml.DocumentNode {
		root = root.Content[0]
	}
	if err := w.value(root); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, max(w.at.Line, 1), err)
	}
	return w.out, nil
}

// DecodeDocuments reads an intent file: YAML documents of key and value, a
// list of such, or a map under intent; JSON likewise. name is for errors, which
// begin with <name>:<line>; one that ends in .json is taken by its word. If anything is
// wrong it returns no document and the first error.
func DecodeDocuments(data []byte, name string) ([]Document, error) {
	docs, wrong := DecodeReadable(data, name)
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	return docs, nil
}

// DecodeReadable reads an intent file as DecodeDocuments does, and goes on where something
// is wrong: it returns what could be read, and the errors, at most a thousand. Where the
// next document begins after an error of syntax cannot be told.
func DecodeReadable(data []byte, name string) (docs []Document, wrong []error) {
	return decode(data, name, maxTree)
}

// DecodeSmall reads an intent file as DecodeDocuments does. It is for texts of callers who
// may not use much memory of the process: it accepts an eighth of the values at a time.
func DecodeSmall(data []byte, name string) ([]Document, error) {
	docs, wrong := decode(data, name, maxTree/8)
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	return docs, nil
}

// DecodeMap reads a map of keys to values, as it stands under intent in a file. It is for texts of callers who
// may not use much memory of the process, as [DecodeSmall] is.
func DecodeMap(data []byte, name string) ([]Document, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	roots, err := parse(data, name, maxTree/8)
	if err != nil {
		return nil, err
	}
	r := &reader{name: name, all: newExpansion(data)}
	for i, root := range roots {
		if i > 0 {
			r.fail(root, "a second document; write one map of keys to values")
			break
		}
		if root.Kind == yaml.DocumentNode && len(root.Content) > 0 {
			root = root.Content[0]
		}
		r.values(root)
	}
	if len(r.wrong) > 0 {
		return nil, r.wrong[0]
	}
	return r.docs, nil
}

func decode(data []byte, name string, tree int) (docs []Document, wrong []error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if docs, ok := readParts(data, name, partSize); ok {
		return docs, nil
	}
	return whole(data, name, tree)
}

// whole reads all of a file at once.
func whole(data []byte, name string, tree int) (docs []Document, wrong []error) {
	roots, err := parse(data, name, tree)
	r := &reader{name: name, all: newExpansion(data)}
	for _, root := range roots {
		r.document(root)
	}
	if err != nil && len(r.wrong) < maxWrong {
		r.wrong = append(r.wrong, err)
	}
	return r.docs, r.wrong
}

// parse reads all documents of a file as trees of YAML nodes, at most so many nodes. With an
// error come those before it.
func parse(data []byte, name string, most int) ([]*yaml.Node, error) {
	if err := checkTree(data, name, most); err != nil {
		return nil, err
	}
	// JSON is YAML but for tabs, which every JSON writer may use.
	if filepath.Ext(name) == ".json" || json.Valid(data) {
		return parseJSON(data, name)
	}
	roots, err := parseYAML(data)
	if err != nil {
		err = yamlError(data, err, name)
	}
	return roots, err
}

// plainName is what the name of a field or a key looks like.
var plainName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_./-]{0,63}$`)

// shown is a name as errors quote it. They go to logs and to statuses, which more can
// read than the file; so what is no name is not quoted: whoever has a wrong file read
// as intent must not be told what is in it.
func shown(name string) string {
	if plainName.MatchString(name) {
		return name
	}
	return "…"
}

// maxWrong bounds what is kept of a file that is something else: its errors take far more
// room than its text.
const maxWrong = 1000

// reader gathers the documents of one file, and what is wrong in it.
type reader struct {
	name  string
	docs  []Document
	wrong []error
	all   *expansion
}

func (r *reader) fail(n *yaml.Node, format string, args ...any) {
	if len(r.wrong) < maxWrong {
		r.wrong = append(r.wrong, fmt.Errorf("%s:%d: %s", r.name, max(n.Line, 1), fmt.Sprintf(format, args...)))
	}
}

// document reads what stands between two lines of dashes.
func (r *reader) document(root *yaml.Node) {
	n := root
	if n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	n = follow(n)
	switch {
	case isNull(n): // nothing, or only comments
	case n.Kind == yaml.SequenceNode:
		for _, item := range n.Content {
			r.entry(follow(item))
		}
	case n.Kind == yaml.MappingNode && has(n, "intent"):
		r.intent(n)
	default:
		r.entry(n)
	}
}

// intent reads `intent: {key: value}`.
func (r *reader) intent(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if name := n.Content[i]; name.Value != "intent" || i > 0 {
			r.fail(name, "%q beside intent; a document with intent holds nothing else", shown(name.Value))
			return
		}
	}
	r.values(n.Content[1])
}

// values reads `{key: value}`.
func (r *reader) values(n *yaml.Node) {
	values := follow(n)
	if isNull(values) {
		return
	}
	if values.Kind != yaml.MappingNode {
		r.fail(values, "intent must be a map of keys to values")
		return
	}
	for i := 0; i+1 < len(values.Content); i += 2 {
		r.add(values.Content[i], values.Content[i+1])
	}
}

// entry reads `key: …, value: …`.
func (r *reader) entry(n *yaml.Node) {
	const want = "a document is a key with its value (key: interface/web, value: {…}), a list of such, or a map under intent"
	if n.Kind != yaml.MappingNode {
		r.fail(n, "%s", want)
		return
	}
	var key, value *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		field := n.Content[i]
		slot := &key
		switch field.Value {
		case "key":
		case "value":
			slot = &value
		default:
			r.fail(field, "unknown field %q; %s", shown(field.Value), want)
			return
		}
		if *slot != nil {
			r.fail(field, "%s is written twice", shown(field.Value))
			return
		}
		*slot = n.Content[i+1]
	}
	switch {
	case key == nil:
		r.fail(n, "no key; %s", want)
	case value == nil:
		r.fail(n, "no value for %s; write at least value: {}", shown(follow(key).Value))
	default:
		r.add(key, value)
	}
}

func (r *reader) add(key, value *yaml.Node) {
	k := follow(key)
	if k.Kind != yaml.ScalarNode || k.Value == "" {
		r.fail(key, "a key is a text such as interface/web")
		return
	}
	if r.all.exceeded() {
		return // one error is enough
	}
	w := &jsonWriter{all: r.all}
	if err := w.value(value); err != nil {
		r.fail(w.at, "%s: %v", shown(k.Value), err)
		return
	}
	r.docs = append(r.docs, Document{Key: k.Value, JSON: w.out, Line: key.Line})
}

// follow resolves an alias.
func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool {
	return n.Kind == 0 || n.Kind == yaml.DocumentNode || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null"
}

func has(n *yaml.Node, field string) bool {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == field {
			return true
		}
	}
	return false
}
