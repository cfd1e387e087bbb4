package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/file"
)

// errNoIntent: there is nothing in the files.
var errNoIntent = errors.New("there is no intent")

// readIntent reads intent files, directories of them, and "-" for stdin. It says which
// of them hold none; all of them are an errNoIntent.
func (c *cli) readIntent(paths []string) ([]*apiv1.Item, error) {
	items, unread, err := c.readReadable(paths)
	if len(unread) > 0 {
		return nil, unread[0][0]
	}
	return items, err
}

// readReadable is readIntent, and goes on where something cannot be read: unread has, for
// each file or path of which that is so, all errors.
func (c *cli) readReadable(paths []string) (items []*apiv1.Item, unread [][]error, err error) {
	var empty []string
	for _, path := range paths {
		files, err := intentFiles(path)
		if err != nil {
			unread = append(unread, []error{err})
			continue
		}
		if len(files) == 0 {
			empty = append(empty, path+" has no file that ends in .yaml, .yml or .json")
		}
		for _, f := range files {
			data, err := c.readFile(f)
			if err != nil {
				unread = append(unread, []error{err})
				continue
			}
			name := f
			if f == "-" {
				name = "stdin"
			}
			more, wrong := itemsOf(data, name)
			switch {
			case len(wrong) > 0:
				unread = append(unread, wrong)
			case len(more) == 0:
				empty = append(empty, name+" holds no document")
			}
			items = append(items, more...)
		}
	}
	if len(items)+len(unread) == 0 {
		return nil, nil, fmt.Errorf("%w: %s; a document is a key with its value (key: interface/web, value: {…})", errNoIntent, strings.Join(empty, "; "))
	}
	c.notes(empty)
	return items, unread, nil
}

// itemsOf are the values of an intent file that can be read, and what is wrong in it.
func itemsOf(data []byte, name string) (items []*apiv1.Item, wrong []error) {
	docs, wrong := file.DecodeReadable(data, name)
	for _, d := range docs {
		items = append(items, &apiv1.Item{Key: d.Key, Text: string(d.JSON), Where: fmt.Sprintf("%s:%d", name, d.Line)})
	}
	return items, wrong
}

// intentFiles are the files of a path: itself, or what the agent would read in
// a directory.
func intentFiles(path string) ([]string, error) {
	if path == "-" {
		return []string{path}, nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") && slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
			out = append(out, filepath.Join(path, e.Name()))
		}
	}
	return out, nil
}

func (c *cli) readFile(path string) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(c.stdin)
	}
	return os.ReadFile(path)
}

// setName is the name of the apply-set of some paths: what they are called in
// full. Stdin has no name.
func setName(paths []string) (string, error) {
	var names []string
	for _, p := range paths {
		if p == "-" {
			return "", nil
		}
		abs, err := filepath.Abs(p)
		if err != nil {
			return "", err
		}
		names = append(names, abs)
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ","), nil
}

// valueText makes JSON of a value in YAML or JSON. What is neither is an error, and if
// that is forced goes to the agent as it is.
func valueText(data []byte, force bool) (string, error) {
	data = bytes.TrimSpace(data)
	if json.Valid(data) {
		return string(data), nil
	}
	text, err := file.DecodeValue(data, "value")
	switch {
	case err == nil:
		return string(text), nil
	case force:
		return string(data), nil
	}
	return "", fmt.Errorf("%w\nnothing was written; --force writes it all the same", err)
}
