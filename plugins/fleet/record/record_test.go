package record_test

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/fleet/record"
)

func TestParseLabels(t *testing.T) {
	for text, want := range map[string]string{
		"role=web rack=a3":     "rack=a3,role=web",
		"empty=":               "empty=",
		"role":                 `error: labels "role": want name=value`,
		"=web":                 `error: labels "=web": want name=value`,
		"role=a role=b":        `error: labels "role=b": role is given twice`,
		"role=a,b":             `error: labels "role=a,b": want name=value`,
		"site/role=a b=-":      `error: labels "b=-": want name=value`,
		"site.example/role=db": "site.example/role=db",
	} {
		got, err := record.ParseLabels(strings.Fields(text))
		said := record.FormatLabels(got)
		if err != nil {
			said = "error: " + err.Error()
		}
		if said != want && !(err != nil && strings.HasPrefix(want, "error: ") && strings.HasPrefix(said, want)) {
			t.Errorf("%s: %s, want %s", text, said, want)
		}
	}
}
