package models

import (
	"embed"
	"strings"
)

//go:embed examples
var examples embed.FS

// Example shows values of a kind as an intent file: YAML documents of key and value.
func Example(kind string) (string, error) {
	k, err := KindByName(kind)
	if err != nil {
		return "", err
	}
	if !k.Writable {
		return "", invalid("", "%s is observed; nobody writes it. See: explain %s", kind, kind)
	}
	text, err := examples.ReadFile("examples/" + kind + ".yaml")
	if err != nil {
		return "", invalid("", "there is no example of %s", kind)
	}
	return strings.TrimRight(string(text), "\n") + "\n", nil
}
