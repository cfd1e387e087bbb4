package main

import (
	"encoding/json"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestYAMLKeepsTexts: a text that YAML could read as something else comes back as it was.
func TestYAMLKeepsTexts(t *testing.T) {
	for _, text := range []string{"\n", "\n\n", "<<", "~", "yes", "0777", "a\n\nb\n", "- x", "a: b #c"} {
		b, err := json.Marshal(map[string][]string{"list": {text, "next"}})
		if err != nil {
			t.Fatal(err)
		}
		out, err := toYAML(b)
		if err != nil {
			t.Fatal(err)
		}
		var back map[string][]string
		if err := yaml.Unmarshal(out, &back); err != nil || len(back["list"]) != 2 || back["list"][0] != text {
			t.Errorf("%q became %q in %q, %v", text, back["list"], out, err)
		}
	}
}
