package models_test

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/plumb-net/plumb/models"
)

// TestDecode reads testdata/decode/*: a key, a value, and what becomes of it.
// Run with -rewrite to write what is new.
func TestDecode(t *testing.T) {
	datadriven.Walk(t, "testdata/decode", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "decode" || len(d.CmdArgs) != 1 {
				d.Fatalf(t, "want: decode <key>")
			}
			msg, err := models.Decode(d.CmdArgs[0].Key, []byte(d.Input))
			if err == nil {
				return string(models.Encode(msg)) + "\n"
			}
			var b strings.Builder
			for _, f := range err.(*models.InvalidError).Fields {
				if f.Field != "" {
					b.WriteString(f.Field + ": ")
				}
				b.WriteString(f.Error + "\n")
			}
			return b.String()
		})
	})
}
