package file_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/file"
)

// bomb is a text whose aliases multiply: of one value of a size, so many copies.
func bomb(form string, size, copies int) string {
	large := strings.Repeat("x", size)
	var b strings.Builder
	switch form {
	case "list":
		fmt.Fprintf(&b, "- {key: interface/a, value: &a {alias: %s}}\n", large)
		for i := range copies {
			fmt.Fprintf(&b, "- {key: interface/i%d, value: *a}\n", i)
		}
	case "whole entries":
		fmt.Fprintf(&b, "- &a {key: interface/a, value: {alias: %s}}\n", large)
		b.WriteString(strings.Repeat("- *a\n", copies))
	case "map":
		fmt.Fprintf(&b, "intent:\n  interface/a: &a {alias: %s}\n", large)
		for i := range copies {
			fmt.Fprintf(&b, "  interface/i%d: *a\n", i)
		}
	case "documents":
		for range 4 {
			b.WriteString("---\n" + bomb("list", size/4, copies/4))
		}
	case "merges":
		b.WriteString("- key: interface/a\n  value: &a {")
		for i := range size / 8 {
			fmt.Fprintf(&b, "f%d: 1, ", i)
		}
		fmt.Fprintf(&b, "}\n- key: interface/b\n  value: {<<: [%s]}\n", strings.TrimSuffix(strings.Repeat("*a,", copies), ","))
	case "nested merges":
		b.WriteString("- key: interface/a\n  value: &v0 {")
		for i := range size / 8 {
			fmt.Fprintf(&b, "f%d: 1, ", i)
		}
		b.WriteString("}\n")
		for i := range 12 {
			again := strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*v%d,", i), 8), ",")
			fmt.Fprintf(&b, "- key: interface/v%d\n  value: &v%d {<<: [%s]}\n", i, i+1, again)
		}
	}
	return b.String()
}

// TestExpansionIsBounded: however aliases multiply, and in whatever form a file is written,
// the memory that a text takes is a small multiple of its length.
func TestExpansionIsBounded(t *testing.T) {
	for _, form := range []string{"list", "whole entries", "map", "documents", "merges", "nested merges"} {
		t.Run(form, func(t *testing.T) {
			text := bomb(form, 100_000, 5_000)
			allocated, docs, err := decode(text)
			if err == nil {
				t.Fatalf("%d bytes became %d documents", len(text), docs)
			}
			if !strings.HasPrefix(err.Error(), "f.yaml:") || !strings.Contains(err.Error(), "aliases") {
				t.Errorf("%v", err)
			}
			const most = 600 << 20 // of 500 MB of JSON alone, and of 5 GB with merges
			if allocated > most {
				t.Errorf("%d bytes of text allocated %d MiB", len(text), allocated>>20)
			}
		})
	}
}

// TestManyValuesAtOnce: a text that is a tree of very many small values is refused before it
// is parsed.
func TestManyValuesAtOnce(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"f.yaml", "[" + strings.Repeat("a,", 8<<20) + "a]"},
		{"f.yaml", strings.Repeat("- a\n", 3<<20)},
		{"f.yaml", strings.Repeat("---\n", 3<<20)},
		{"f.json", "[" + strings.Repeat("1,", 8<<20) + "1]"},
	} {
		allocated, docs, err := decode(c.text, c.name)
		if err == nil || !strings.HasPrefix(err.Error(), c.name+":") || !strings.Contains(err.Error(), "split it") {
			t.Errorf("%.10s…: %d documents, %v", c.text, docs, err)
		}
		if allocated > 2*uint64(len(c.text)) {
			t.Errorf("%.10s…: %d bytes of text allocated %d MiB", c.text, len(c.text), allocated>>20)
		}
	}
}

// TestUsualAliases: what people write with aliases, also in large files, is far from the bounds.
func TestUsualAliases(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, head := range []string{"", "intent:\n"} {
		var b strings.Builder
		b.WriteString(head)
		const keys = 20_000
		for i := range keys {
			value := "*common"
			switch {
			case i == 0:
				value = "&common {mtu: 1400, addresses: [10.0.0.1/24], dummy: {}}"
			case rng.IntN(2) == 0:
				value = fmt.Sprintf("{<<: *common, mtu: %d}", 1300+rng.IntN(100))
			}
			if head == "" {
				fmt.Fprintf(&b, "- {key: interface/i%d, value: %s}\n", i, value)
			} else {
				fmt.Fprintf(&b, "  interface/i%d: %s\n", i, value)
			}
		}
		if _, docs, err := decode(b.String()); err != nil || docs != keys {
			t.Errorf("%d documents, %v", docs, err)
		}
	}
}

func decode(text string, name ...string) (allocated uint64, documents int, err error) {
	data := []byte(text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	docs, err := file.DecodeDocuments(data, append(name, "f.yaml")[0])
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc, len(docs), err
}
