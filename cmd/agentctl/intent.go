package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/file"
)

// readIntent reads intent files, directories of them, and "-" for stdin.
func (c *cli) readIntent(paths []string) ([]*apiv1.Item, error) {
	var items []*apiv1.Item
	for _, path := range paths {
		files, err := intentFiles(path)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			data, err := c.readFile(f)
			if err != nil {
				return nil, err
			}
			name := f
			if f == "-" {
				name = "stdin"
			}
			docs, err := file.DecodeDocuments(data, name)
			if err != nil {
				return nil, err
			}
			for _, d := range docs {
				items = append(items, &apiv1.Item{Key: d.Key, Text: string(d.JSON), Where: fmt.Sprintf("%s:%d", name, d.Line)})
			}
		}
	}
	return items, nil
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

// valueText makes JSON of a value in YAML or JSON. What is neither goes to the
// agent as it is, to be refused there, or forced.
func valueText(data []byte) string {
	data = bytes.TrimSpace(data)
	if json.Valid(data) {
		return string(data)
	}
	doc := "key: x/x\nvalue:\n  " + strings.ReplaceAll(string(data), "\n", "\n  ") + "\n"
	docs, err := file.DecodeDocuments([]byte(doc), "value")
	if err != nil || len(docs) != 1 {
		return string(data)
	}
	return string(docs[0].JSON)
}
