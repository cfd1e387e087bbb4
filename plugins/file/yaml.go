package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Bounds of one value. Aliases may make a short text very long, and even contain themselves.
const (
	maxJSON  = 4 << 20
	maxNodes = 1 << 20
	maxDepth = 100
)

// jsonWriter turns a YAML tree into JSON. It keeps doubled fields and their
// order, so that the decoder of the models can tell about them.
type jsonWriter struct {
	out   []byte
	nodes int
	// all bounds the sum over the values of a text; counted is how much of out it includes.
	all     *expansion
	counted int
	// at is the node under way, for the line of an error.
	at *yaml.Node
}

// value writes a whole value.
func (w *jsonWriter) value(n *yaml.Node) error {
	if err := w.write(n, 0); err != nil {
		return err
	}
	w.at = n
	return w.count(0)
}

func (w *jsonWriter) write(n *yaml.Node, depth int) error {
	w.at = n
	if err := w.bounds(depth); err != nil {
		return err
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.write(n.Alias, depth+1)
	case yaml.MappingNode:
		return w.object(n, depth)
	case yaml.SequenceNode:
		return w.array(n, depth)
	case yaml.ScalarNode:
		return w.scalar(n)
	}
	return errors.New("no value")
}

func (w *jsonWriter) bounds(depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("nested more than %d deep; does an alias contain itself?", maxDepth)
	}
	return w.count(1)
}

// count adds nodes, and the bytes written since the last call, to what was expanded so far.
func (w *jsonWriter) count(nodes int) error {
	w.nodes += nodes
	if len(w.out) > maxJSON || w.nodes > maxNodes {
		return errors.New("too large; do aliases multiply?")
	}
	bytes := len(w.out) - w.counted
	w.counted = len(w.out)
	return w.all.add(nodes, bytes)
}

func (w *jsonWriter) object(n *yaml.Node, depth int) error {
	w.out = append(w.out, '{')
	members, err := w.members(n, depth)
	if err != nil {
		return err
	}
	for i, m := range members {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.text(m.name); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		if err := w.write(m.value, depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

type member struct {
	name  string
	value *yaml.Node
}

// members lists the fields of a map, those first that are written in it, then
// those that << brings in from others and that are not there yet.
func (w *jsonWriter) members(n *yaml.Node, depth int) ([]member, error) {
	if err := w.bounds(depth); err != nil {
		return nil, err
	}
	var own, merged []member
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		if name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		if name.Kind != yaml.ScalarNode {
			w.at = n.Content[i]
			return nil, errors.New("the name of a field must be a text")
		}
		if name.ShortTag() == "!!merge" {
			more, err := w.merged(value, depth+1)
			if err == nil {
				err = w.count(len(more)) // each is copied, whether or not it is written
			}
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
			continue
		}
		own = append(own, member{name.Value, value})
		seen[name.Value] = true
	}
	for _, m := range merged {
		if !seen[m.name] {
			own = append(own, m)
			seen[m.name] = true
		}
	}
	return own, nil
}

// merged lists the fields of the map, or of the maps in the list, after <<.
func (w *jsonWriter) merged(n *yaml.Node, depth int) ([]member, error) {
	w.at = n
	n = follow(n)
	switch n.Kind {
	case yaml.MappingNode:
		return w.members(n, depth)
	case yaml.SequenceNode:
		var all []member
		for _, item := range n.Content {
			if follow(item).Kind != yaml.MappingNode {
				w.at = item
				return nil, errors.New("<< takes a map or a list of maps")
			}
			more, err := w.members(follow(item), depth)
			if err == nil {
				err = w.count(len(more))
			}
			if err != nil {
				return nil, err
			}
			all = append(all, more...)
		}
		return all, nil
	}
	return nil, errors.New("<< takes a map or a list of maps")
}

func (w *jsonWriter) array(n *yaml.Node, depth int) error {
	w.out = append(w.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.write(item, depth+1); err != nil {
			return err
		}
	}
	w.out = append(w.out, ']')
	return nil
}

func (w *jsonWriter) scalar(n *yaml.Node) error {
	switch tag := n.ShortTag(); tag {
	case "!!null":
		w.out = append(w.out, "null"...)
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return fmt.Errorf("%q is neither true nor false", n.Value)
		}
		w.out = strconv.AppendBool(w.out, b)
	case "!!int", "!!float":
		return w.number(n)
	case "!!str", "!!timestamp", "!!merge":
		return w.text(n.Value)
	default:
		return fmt.Errorf("the tag %s is not known here; quote the text instead", tag)
	}
	return nil
}

// number writes a number as it stands if JSON knows it so, else its value.
func (w *jsonWriter) number(n *yaml.Node) error {
	if json.Valid([]byte(n.Value)) {
		w.out = append(w.out, n.Value...)
		return nil
	}
	if n.ShortTag() == "!!int" {
		var i int64
		if n.Decode(&i) == nil {
			w.out = strconv.AppendInt(w.out, i, 10)
			return nil
		}
		var u uint64
		if n.Decode(&u) == nil {
			w.out = strconv.AppendUint(w.out, u, 10)
			return nil
		}
	}
	var f float64
	if err := n.Decode(&f); err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return fmt.Errorf("%q is no number that JSON can hold", n.Value)
	}
	w.out = strconv.AppendFloat(w.out, f, 'g', -1, 64)
	return nil
}

func (w *jsonWriter) text(s string) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	w.out = append(w.out, text...)
	return nil
}
