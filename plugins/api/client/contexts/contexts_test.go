package contexts

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestParse: files of contexts, as they are written again, and what is wrong with them.
func TestParse(t *testing.T) {
	datadriven.RunTest(t, "testdata/parse", func(t *testing.T, d *datadriven.TestData) string {
		f, err := Parse("contexts.yaml", []byte(d.Input))
		if err != nil {
			return err.Error()
		}
		return string(f.text())
	})
}

// TestSave: what is saved can be loaded, and only by its owner; what is missing is empty.
func TestSave(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "contexts.yaml")
	f, err := Load(path)
	if err != nil || len(f.Contexts) != 0 {
		t.Fatal(f, err)
	}
	f.Contexts["a"] = Context{Socket: "/run/a"}
	f.Current = "a"
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	again, err := Load(path)
	if err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("%+v became %+v (%v)", f, again, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if _, err := again.Find("b"); err == nil || err.Error() != `there is no context "b"; there are a` {
		t.Errorf("%v", err)
	}
}

// FuzzContexts: what is read is good, and the same when it is written and read again.
func FuzzContexts(f *testing.F) {
	f.Add("current: a\ncontexts:\n  a: {socket: /run/a}\n")
	f.Add("contexts:\n  a:\n    address: '[::1]:7443'\n    cert: /c\n    key: /k\n  b: &x\n    socket: /s\n  c: *x\n")
	f.Add("contexts: {1: {address: 'a:1', token-file: /t, server-name: 'yes'}}")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := Parse("f", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") {
				t.Fatalf("%v", err)
			}
			return
		}
		for name, c := range all.Contexts {
			if err := c.Check(); err != nil || CheckName(name) != nil {
				t.Fatalf("%q: %+v: %v", name, c, err)
			}
		}
		again, err := Parse("f", all.text())
		if err != nil || fmt.Sprint(again) != fmt.Sprint(all) {
			t.Fatalf("%+v became %+v (%v)\n%s", all, again, err, all.text())
		}
	})
}
