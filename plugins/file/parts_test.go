package file

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestPartsAreTheWhole: what is read in parts is what is read at once, or nothing.
func TestPartsAreTheWhole(t *testing.T) {
	lines := []string{
		"  a/b: {}", "  c/d: {x: 1}", "  e/f:", "    x: 1", "    y: [1, 2]", "    z: {a: b,", "  c: d}", "  g/h: &n {x: 1}", "  i/j: *n",
		"  k/l: {<<: *n}", "  \"q/r\": \"one", "  more: of it\"", "  m/n: |", "    a: b", "  # nothing", "# nothing", "", "  ? o/p", "  : {}",
		"  s/t: [", "  u/v: 1]", "  'w/x': {}", "   y: 1", " z: 1", "  - a", "  text", "---", "...", "other: {}", "\tx: 1", "  a/b: 2\r  c: 3", "  a/b: 'it''s", "  x: y'",
	}
	parts := 0
	for seed := range uint64(30_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		text := "intent:\n"
		if r.IntN(8) == 0 {
			text = "# it\n\nintent:\n"
		}
		few := lines[:5+r.IntN(len(lines)-5)] // the odd ones more seldom
		for range 2 + r.IntN(8) {
			text += few[r.IntN(len(few))] + "\n"
		}
		docs, ok := readParts([]byte(text), "f.yaml", 8)
		if !ok {
			continue
		}
		parts++
		want, err := whole([]byte(text), "f.yaml", maxTree)
		if err != nil || !reflect.DeepEqual(docs, want) {
			t.Fatalf("%s\nparts: %+v\nwhole: %+v, %v", text, docs, want, err)
		}
	}
	if parts < 1000 {
		t.Errorf("%d texts were read in parts", parts)
	}
}

// A large file is read in parts, and what is wrong in it is told as in a small one.
func TestLargeFiles(t *testing.T) {
	var b strings.Builder
	b.WriteString("# much\nintent:\n")
	const many = 10_000
	for i := range many {
		fmt.Fprintf(&b, "  route/r%d:\n    interface: br0\n    destination: 10.0.%d.%d/32\n", i, i>>8, i&255)
	}
	docs, ok := readParts([]byte(b.String()), "f.yaml", partSize)
	if !ok || len(docs) != many {
		t.Fatalf("%d documents, in parts: %v", len(docs), ok)
	}
	if last := docs[many-1]; last.Line != 3*many || last.Key != fmt.Sprintf("route/r%d", many-1) {
		t.Errorf("the last is %s in line %d", last.Key, last.Line)
	}
	b.WriteString("  route/bad: !x 1\n")
	want := fmt.Sprintf("f.yaml:%d: route/bad: ", 3*many+3)
	if _, err := DecodeDocuments([]byte(b.String()), "f.yaml"); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
	if _, ok := readParts([]byte(b.String()), "f.json", partSize); ok {
		t.Error("a file that says it is JSON was read as YAML")
	}
}
