package nftables

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// FuzzListing: a listing is understood or refused; what is understood has chains with
// names, and rules without empty ones.
func FuzzListing(f *testing.F) {
	files, err := filepath.Glob("testdata/listings/*")
	if err != nil || len(files) == 0 {
		f.Fatalf("no listings: %v", err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("table inet x {\n\tchain {\n}\n}\n}")
	f.Add("chain a {\n {\n b\n")
	f.Fuzz(func(t *testing.T, listing string) {
		table, err := parse(listing, "inet", "x")
		if err != nil {
			return
		}
		for _, c := range table.Chains {
			for _, r := range c.Rules {
				if r == "" {
					t.Fatalf("an empty rule in %+v", c)
				}
			}
		}
		_ = scriptOf(table, true)
	})
}

// FuzzGeneration: nothing is read beyond the end of the kernel's answer.
func FuzzGeneration(f *testing.F) {
	whole := make([]byte, headers, headers+8)
	binary.NativeEndian.PutUint32(whole, headers+8)
	whole = append(whole, 8, 0, generationID, 0, 0, 0, 0, 7)
	f.Add(whole)
	f.Add(whole[:headers])
	f.Add(append(make([]byte, headers), 1, 0, 9, 0, 0xff, 0xff, 1, 0, 0))
	f.Fuzz(func(_ *testing.T, answer []byte) {
		_, _ = readGeneration(answer)
	})
}
