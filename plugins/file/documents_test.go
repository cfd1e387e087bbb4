package file_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/file"
)

// TestDocuments reads testdata/documents/*: a file, the documents in it, and what is wrong.
// Run with -rewrite to write what is new.
func TestDocuments(t *testing.T) {
	datadriven.Walk(t, "testdata/documents", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			text := strings.ReplaceAll(d.Input, "<tab>", "\t")
			docs, wrong := file.DecodeReadable([]byte(text), "f."+d.Cmd)
			var b strings.Builder
			for _, doc := range docs {
				fmt.Fprintf(&b, "%d %s %s\n", doc.Line, doc.Key, doc.JSON)
			}
			for _, err := range wrong {
				fmt.Fprintf(&b, "error: %v\n", err)
			}
			all, err := file.DecodeDocuments([]byte(text), "f."+d.Cmd)
			if len(wrong) > 0 && (all != nil || err == nil || err.Error() != wrong[0].Error()) {
				d.Fatalf(t, "read as a whole: %d documents, %v", len(all), err)
			}
			return b.String()
		})
	})
}

// TestNoIntentAtAll: of a file that is something else no more is kept than people read.
func TestNoIntentAtAll(t *testing.T) {
	docs, wrong := file.DecodeReadable([]byte(strings.Repeat("- x\n", 5000)+"- [\n"), "f.yaml")
	if len(docs) != 0 || len(wrong) > 1000 {
		t.Errorf("a file of another syntax: %d documents, %d errors", len(docs), len(wrong))
	}
	if _, wrong = file.DecodeReadable([]byte(strings.Repeat("- x\n", 5000)), "f.yaml"); len(wrong) != 1000 {
		t.Errorf("a list of something else: %d errors", len(wrong))
	}
}

// examplesOf are the examples of each kind that can be written, and their text.
func examplesOf(t *testing.T, each func(k models.Kind, text string, docs []file.Document)) {
	t.Helper()
	for _, k := range models.Kinds() {
		if !k.Writable {
			continue
		}
		text, err := models.Example(k.Name)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := file.DecodeDocuments([]byte(text), k.Name)
		if err != nil || len(docs) == 0 {
			t.Fatalf("%s: %d documents, %v", k.Name, len(docs), err)
		}
		each(k, text, docs)
	}
}

// TestExamplesReach: the default policy accepts the examples, and the comment of one that it refuses says which
// setting accepts it. The first example of a kind is always accepted.
func TestExamplesReach(t *testing.T) {
	reach := models.Reach{
		IsHost: func(string) bool { return false },
		Uplink: func(link string) string {
			return map[bool]string{true: "is a physical device"}[strings.HasPrefix(link, "eth")]
		},
	}
	setting := regexp.MustCompile(`policy: "[^"]+"`)
	examplesOf(t, func(k models.Kind, text string, docs []file.Document) {
		for i, doc := range docs {
			v, err := models.Decode(doc.Key, doc.JSON)
			if err != nil {
				t.Fatal(err)
			}
			if err := reach.Check(doc.Key, v); err != nil && (i == 0 || !strings.Contains(text, setting.FindString(err.Error()))) {
				t.Errorf("example %d of %s, %s: %v", i+1, k.Name, doc.Key, err)
			}
		}
	})
}

// TestExamples: every example of the models is an intent file that is valid,
// and stops being so when a required field is taken out.
func TestExamples(t *testing.T) {
	examplesOf(t, func(k models.Kind, _ string, docs []file.Document) {
		text, err := models.Schema(k.Name)
		if err != nil {
			t.Fatal(err)
		}
		var schema map[string]any
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		for _, doc := range docs {
			if _, err := models.Decode(doc.Key, doc.JSON); err != nil || !strings.HasPrefix(doc.Key, k.Prefix) {
				t.Errorf("%s:%d: %s: %v", k.Name, doc.Line, doc.Key, err)
			}
			var value map[string]any
			if err := json.Unmarshal(doc.JSON, &value); err != nil {
				t.Fatal(err)
			}
			withoutRequired(value, schema, func(field string) {
				text, err := json.Marshal(value)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := models.Decode(doc.Key, text); err == nil {
					t.Errorf("%s: the schema requires %s, Decode does not", doc.Key, field)
				}
			})
		}
	})
}

// withoutRequired calls try once for every required field in the value, while
// it is taken out.
func withoutRequired(value, schema map[string]any, try func(field string)) {
	required, _ := schema["required"].([]any)
	for _, r := range required {
		field := r.(string)
		was, ok := value[field]
		if !ok {
			try(field)
			continue
		}
		delete(value, field)
		try(field)
		value[field] = was
	}
	properties, _ := schema["properties"].(map[string]any)
	for name, sub := range properties {
		if inner, ok := value[name].(map[string]any); ok {
			withoutRequired(inner, sub.(map[string]any), try)
		}
	}
}

// FuzzDocuments: no file makes the reader panic or hang, and what comes out is JSON, in all
// not much longer than the file.
func FuzzDocuments(f *testing.F) {
	for _, s := range []string{
		"key: interface/a\nvalue: {dummy: {}}\n", "intent:\n  a/b: &x {y: [1, 0x10, .5, ~, yes]}\n  c/d: *x\n",
		"- {key: a/b, value: {<<: {x: 1}, y: 2}}\n---\n[]\n", "{\"intent\":{\"a/b\":{}}}", "a: &a [*a, *a]\n", "- {key: a/b, value: &a {x: [1, 2]}}\n- {key: c/d, value: &b [*a, *a]}\n- {key: e/f, value: [*b, *b]}\n", "key: [\n", "\t", "? {a: b}\n: c\n", "key: a\nvalue: !!binary x",
	} {
		f.Add(s, false)
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, text string, isJSON bool) {
		name := "f.yaml"
		if isJSON {
			name = "f.json"
		}
		docs, err := file.DecodeDocuments([]byte(text), name)
		if err != nil && (docs != nil || !strings.HasPrefix(err.Error(), name+":")) {
			t.Fatalf("%d documents, %v", len(docs), err)
		}
		sum := 0
		for _, d := range docs {
			sum += len(d.JSON)
			if !json.Valid(d.JSON) || d.Key == "" || d.Line < 1 {
				t.Fatalf("%+v", d)
			}
		}
		if sum > 4*len(text)+16<<20 {
			t.Fatalf("%d bytes became %d", len(text), sum)
		}
	})
}
