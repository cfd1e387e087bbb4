package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// Values are those of a file for templates: of each host, and for all that do not have them.
type Values struct {
	Defaults map[string]any            `yaml:"defaults"`
	Hosts    map[string]map[string]any `yaml:"hosts"`
}

// ParseValues reads a file of values; name is for errors. A value that is null is an error,
// as one that is missing would be.
func ParseValues(text []byte, name string) (v Values, err error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&v); err != nil {
		return v, fmt.Errorf("%s: %w; want the maps defaults: {name: value} and hosts: {host: {name: value}}", name, err)
	}
	for _, host := range slices.Sorted(maps.Keys(v.Hosts)) {
		if err := noNull(v.Hosts[host], "hosts."+host); err != nil {
			return v, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := noNull(v.Defaults, "defaults"); err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

func noNull(value any, where string) error {
	switch v := value.(type) {
	case nil:
		return fmt.Errorf("%s is null; give it a value or leave it out", where)
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := noNull(v[k], where+"."+k); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := noNull(e, fmt.Sprintf("%s[%d]", where, i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// of are the values of a host: its own, and the defaults that it has not.
func (v Values) of(label string) map[string]any {
	out := map[string]any{}
	maps.Copy(out, v.Defaults)
	maps.Copy(out, v.Hosts[label])
	return out
}

// Template is an intent file with places for what differs from host to host.
type Template struct{ t *template.Template }

// ParseTemplate reads one; name is for errors, which begin with name and line.
func ParseTemplate(text []byte, name string) (*Template, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{
		"json": func(v any) (string, error) { b, err := json.Marshal(v); return string(b), err },
	}).Parse(string(text))
	if err != nil {
		return nil, templateError(err)
	}
	return &Template{t}, nil
}

// Render is the file of a host.
func (t *Template) Render(a Agent, v Values) ([]byte, error) {
	labels := a.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	var out bytes.Buffer
	if err := t.t.Execute(&out, map[string]any{"agent": a.Label, "labels": labels, "values": v.of(a.Label)}); err != nil {
		return nil, templateError(err)
	}
	return out.Bytes(), nil
}

// templateError says an error of a template without what only matters to the package.
func templateError(err error) error {
	return fmt.Errorf("%s", strings.TrimPrefix(err.Error(), "template: "))
}
