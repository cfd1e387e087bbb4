package models_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/plumb-net/plumb/models"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestDocs reads testdata/docs/*: explain, schema and example as people see them.
func TestDocs(t *testing.T) {
	datadriven.Walk(t, "testdata/docs", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var text string
			var err error
			switch d.Cmd {
			case "explain":
				text, err = models.Explain(d.CmdArgs[0].Key)
			case "example":
				text, err = models.Example(d.CmdArgs[0].Key)
			case "schema":
				var b []byte
				b, err = models.Schema(d.CmdArgs[0].Key)
				text = string(b)
			}
			if err != nil {
				return "error: " + err.Error() + "\n"
			}
			return text
		})
	})
}

// TestEveryFieldIsDocumented walks all kinds: a field without a comment is a
// field that nobody can use.
func TestEveryFieldIsDocumented(t *testing.T) {
	for _, k := range models.Kinds() {
		everyField(k.Name, k.New().ProtoReflect().Descriptor(), func(path string) {
			text, err := models.Explain(path)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return
			}
			if lines := strings.Split(text, "\n"); len(lines) < 2 || len(strings.TrimSpace(lines[1])) < 5 {
				t.Errorf("%s has no comment: %q", path, text)
			}
		})
		schema, err := models.Schema(k.Name)
		if err != nil || !json.Valid(schema) {
			t.Errorf("schema of %s: %v", k.Name, err)
		}
	}
}

func everyField(path string, md protoreflect.MessageDescriptor, f func(path string)) {
	f(path)
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		at := path + "." + string(fd.Name())
		if sub := fd.Message(); sub != nil && !fd.IsMap() {
			everyField(at, sub, f)
			continue
		}
		f(at)
	}
}

// TestExamplesShowEveryLinkType keeps the examples complete.
func TestExamplesShowEveryLinkType(t *testing.T) {
	text, err := models.Example(models.KindInterface)
	if err != nil {
		t.Fatal(err)
	}
	members := new(models.Interface).ProtoReflect().Descriptor().Oneofs().ByName("link").Fields()
	for i := range members.Len() {
		if name := string(members.Get(i).Name()); !strings.Contains(text, "\n  "+name+":") {
			t.Errorf("no example of %s", name)
		}
	}
	for _, k := range models.Kinds() {
		if _, err := models.Example(k.Name); (err == nil) != k.Writable {
			t.Errorf("example of %s: %v", k.Name, err)
		}
	}
}

// TestRangesInCommentsHold: a range that the comment of a number tells is the one that is
// checked, and 0 beside it is told where it is taken.
func TestRangesInCommentsHold(t *testing.T) {
	limits := regexp.MustCompile(`^\S+: number, (0 or )?(\d+) to (\d+)`)
	told := regexp.MustCompile(`\b(\d+) to (\d+)\b`)
	zero := regexp.MustCompile(`\b0:|\bor 0\b|\bDefault\b|\bdefault\b`)
	ranges := 0
	for _, k := range models.Kinds() {
		everyField(k.Name, k.New().ProtoReflect().Descriptor(), func(path string) {
			text, err := models.Explain(path)
			if err != nil {
				t.Fatal(err)
			}
			first, rest, _ := strings.Cut(text, "\n")
			comment := strings.Join(strings.Fields(rest), " ")
			says := told.FindStringSubmatch(comment)
			if says == nil || !strings.HasPrefix(first, path+": number") {
				return
			}
			ranges++
			is := limits.FindStringSubmatch(first)
			if is == nil {
				t.Errorf("%s: nothing checks %q", path, says[0])
				return
			}
			from, orZero := is[2], is[1] != ""
			if from == "0" && says[1] != "0" {
				from, orZero = "1", true
			}
			if from != says[1] || is[3] != says[2] || orZero && !zero.MatchString(comment) {
				t.Errorf("%s says %q of %q", path, comment, is[0])
			}
		})
	}
	if ranges < 10 {
		t.Errorf("only %d comments with a range", ranges)
	}
}
