package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// parseJSON reads JSON, one text or several after another, as trees of YAML
// nodes, so that all else is done once. With an error come those before it.
func parseJSON(data []byte, name string) ([]*yaml.Node, error) {
	p := &jsonReader{data: data, dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	var roots []*yaml.Node
	for {
		n, err := p.next(0)
		switch {
		case errors.Is(err, io.EOF):
			return roots, nil
		case err != nil:
			return roots, fmt.Errorf("%s:%d: not valid JSON: %w", name, p.errorLine(err), err)
		}
		roots = append(roots, n)
	}
}

type jsonReader struct {
	data []byte
	dec  *json.Decoder
	// at and line say how far lines were counted.
	at, line int
}

func (p *jsonReader) lineAt(offset int64) int {
	to := min(int(offset), len(p.data))
	if to > p.at {
		p.line += bytes.Count(p.data[p.at:to], []byte("\n"))
		p.at = to
	}
	return p.line + 1
}

func (p *jsonReader) errorLine(err error) int {
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &syntax):
		return p.lineAt(syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return p.lineAt(int64(len(bytes.TrimRight(p.data, "\n"))))
	}
	return p.lineAt(p.dec.InputOffset())
}

// next reads one value. io.EOF means that there is none at the top.
func (p *jsonReader) next(depth int) (*yaml.Node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested more than %d deep", maxDepth)
	}
	token, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: p.lineAt(p.dec.InputOffset())}
	switch v := token.(type) {
	case json.Delim:
		n.Kind = yaml.MappingNode
		if v == '[' {
			n.Kind = yaml.SequenceNode
		}
		return n, p.content(n, depth)
	case string:
		n.Tag, n.Value = "!!str", v
	case json.Number:
		n.Tag, n.Value = "!!float", v.String()
	case bool:
		n.Tag, n.Value = "!!bool", fmt.Sprint(v)
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

// content reads up to the closing bracket; names and values come in turn.
func (p *jsonReader) content(n *yaml.Node, depth int) error {
	for p.dec.More() {
		item, err := p.next(depth + 1)
		if err != nil {
			return inside(err)
		}
		n.Content = append(n.Content, item)
	}
	_, err := p.dec.Token()
	return inside(err)
}

// inside: the end of the text is an error between brackets.
func inside(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
