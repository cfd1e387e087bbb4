// Package contexts keeps in a file of the user how agents are reached, by names.
//
//	current: edge1
//	contexts:
//	  edge1:
//	    address: 192.0.2.1:7443
//	    ca: /etc/plumb/ca.pem
//	    token-file: /etc/plumb/edge1.token
//	  second:
//	    socket: /run/plumb-second/agent.sock
package contexts

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/private"
)

// Context is how one agent is reached: at a socket of this host, or over the network.
type Context struct {
	Socket string
	client.Remote
}

// At is where the agent is, for people.
func (c Context) At() string {
	if c.Socket != "" {
		return c.Socket
	}
	return c.Address
}

// fields are those of the file, in its order.
func (c *Context) fields() []field {
	return []field{
		{"socket", &c.Socket, true}, {"address", &c.Address, false}, {"ca", &c.CA, true}, {"cert", &c.Cert, true}, {"key", &c.Key, true},
		{"token-file", &c.TokenFile, true}, {"server-name", &c.ServerName, false},
	}
}

// field is one of them; of files the path is from the root.
type field struct {
	name string
	text *string
	file bool
}

// Check reports what is missing or too much.
func (c Context) Check() error {
	for _, f := range c.fields() {
		if f.file && *f.text != "" && !filepath.IsAbs(*f.text) {
			return fmt.Errorf("%s: want a path from /, not %q", f.name, *f.text)
		}
	}
	switch {
	case (c.Socket == "") == (c.Address == ""):
		return errors.New("want either socket, of an agent of this host, or address, of one that is reached over the network")
	case c.Socket != "" && c.Remote != client.Remote{}:
		return errors.New("a socket needs neither ca, cert, key, token-file nor server-name")
	case c.Socket != "":
		return nil
	case (c.Cert == "") != (c.Key == ""):
		return errors.New("cert and key need each other")
	case c.Cert == "" && c.TokenFile == "":
		return errors.New("an address needs token-file, or cert and key: agents answer nobody else over the network")
	}
	if host, port, err := net.SplitHostPort(c.Address); err != nil || host == "" || port == "" {
		return fmt.Errorf("address: want HOST:PORT, not %q", c.Address)
	}
	return nil
}

// File is all contexts and which of them is used if nothing else is said.
type File struct {
	Current  string
	Contexts map[string]Context
}

// Names of all contexts, sorted.
func (f *File) Names() []string { return slices.Sorted(maps.Keys(f.Contexts)) }

// Find is the context of a name; its error names those that there are.
func (f *File) Find(name string) (Context, error) {
	if c, ok := f.Contexts[name]; ok {
		return c, nil
	}
	if len(f.Contexts) == 0 {
		return Context{}, fmt.Errorf("there is no context %q, nor any other; make one with `agentctl context set`", name)
	}
	return Context{}, fmt.Errorf("there is no context %q; there are %s", name, strings.Join(f.Names(), ", "))
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$`)

// CheckName reports why something cannot be the name of a context.
func CheckName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q is no name of a context: want 1 to 63 letters, digits and . _ -, and a letter or digit first", name)
	}
	return nil
}

// Load reads the file. One that is not there holds nothing.
func Load(path string) (*File, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{Contexts: map[string]Context{}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("contexts: %w", err)
	}
	return Parse(path, text)
}

// Save writes the file in one step, for the eyes of its owner alone.
func (f *File) Save(path string) error { return private.WriteFile(path, f.text()) }

func (f *File) text() []byte {
	text := func(s string) *yaml.Node {
		var n yaml.Node
		n.SetString(s)
		return &n
	}
	all := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range f.Names() {
		one, c := &yaml.Node{Kind: yaml.MappingNode}, f.Contexts[name]
		for _, f := range c.fields() {
			if *f.text != "" {
				one.Content = append(one.Content, text(f.name), text(*f.text))
			}
		}
		all.Content = append(all.Content, text(name), one)
	}
	doc := &yaml.Node{Kind: yaml.MappingNode}
	if f.Current != "" {
		doc.Content = append(doc.Content, text("current"), text(f.Current))
	}
	doc.Content = append(doc.Content, text("contexts"), all)
	out, _ := yaml.Marshal(doc) // of texts alone
	return out
}

// Parse reads the text of a file; errors name the path and the line.
func Parse(path string, text []byte) (*File, error) {
	f := &File{Contexts: map[string]Context{}}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if doc.Kind == 0 {
		return f, nil
	}
	current := &yaml.Node{}
	err := each(doc.Content[0], "the file", func(name string, v *yaml.Node) (err error) {
		switch name {
		case "current":
			current = v
			f.Current, err = word(v)
			return err
		case "contexts":
			return each(v, "contexts", f.read)
		}
		return errors.New("there is no such field; there are current and contexts")
	})
	if err == nil && f.Current != "" {
		if _, missing := f.Find(f.Current); missing != nil {
			err = &lineError{current.Line, fmt.Errorf("current: %w", missing)}
		}
	}
	var at *lineError
	if errors.As(err, &at) {
		return nil, fmt.Errorf("%s:%d: %w", path, at.line, at.error)
	}
	return f, err
}

func (f *File) read(name string, v *yaml.Node) error {
	if err := CheckName(name); err != nil {
		return err
	}
	var c Context
	err := each(v, name, func(field string, v *yaml.Node) (err error) {
		var names []string
		for _, f := range c.fields() {
			if f.name == field {
				*f.text, err = word(v)
				return err
			}
			names = append(names, f.name)
		}
		return fmt.Errorf("there is no such field; there are %s", strings.Join(names, ", "))
	})
	if err == nil {
		if wrong := c.Check(); wrong != nil {
			err = &lineError{v.Line, fmt.Errorf("%s: %w", name, wrong)}
		}
	}
	f.Contexts[name] = c
	return err
}

// lineError is what is wrong in a line.
type lineError struct {
	line int
	error
}

func (l *lineError) Unwrap() error { return l.error }

// each calls do for every field of a mapping, and says in which line an error is.
func each(n *yaml.Node, what string, do func(name string, v *yaml.Node) error) error {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		return &lineError{n.Line, fmt.Errorf("%s: want names with values", what)}
	}
	seen := map[string]bool{}
	for i := 0; i < len(n.Content); i += 2 {
		name, err := word(n.Content[i])
		if err == nil && seen[name] {
			err = errors.New("this stands here twice")
		}
		if err == nil {
			seen[name] = true
			err = do(name, n.Content[i+1])
		}
		var at *lineError
		if err != nil && !errors.As(err, &at) {
			err = &lineError{n.Content[i].Line, fmt.Errorf("%s: %w", n.Content[i].Value, err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// word is a text; an alias or a list is none.
func word(n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		return "", errors.New("want a text")
	}
	return n.Value, nil
}
