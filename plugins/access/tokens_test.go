package access

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTokens: files of tokens, and what is wrong with them. $A to $C are digests.
func TestTokens(t *testing.T) {
	digests := strings.NewReplacer("$A", digestOf("a"), "$B", digestOf("b"), "$C", digestOf("c"))
	back := strings.NewReplacer(digestOf("a"), "$A", digestOf("b"), "$B", digestOf("c"), "$C")
	datadriven.RunTest(t, "testdata/tokens", func(t *testing.T, d *datadriven.TestData) string {
		all, err := ParseTokens("tokens", []byte(digests.Replace(d.Input)))
		if err != nil {
			return err.Error()
		}
		var out strings.Builder
		for _, e := range all {
			fmt.Fprintln(&out, back.Replace(e.String()))
		}
		return out.String()
	})
}

func digestOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return digestPrefix + hex.EncodeToString(sum[:])
}

// TestNewToken: a token is found by its entry's line, and by nothing else.
func TestNewToken(t *testing.T) {
	token, e, err := NewToken("amy", Operator)
	if err != nil || len(token) < 40 {
		t.Fatal(token, err)
	}
	other, f, _ := NewToken("bob", Viewer)
	all, err := ParseTokens("tokens", []byte(e.String()+"\n"+f.String()))
	if err != nil {
		t.Fatal(err)
	}
	for asked, want := range map[string]string{token: "amy", other: "bob", "": "", token + "x": "", e.String(): "", hex.EncodeToString(e.Digest[:]): ""} {
		if got, ok := all.Find(asked); got.Name != want || ok != (want != "") {
			t.Errorf("%q is of %q", asked, got.Name)
		}
	}
	for _, name := range []string{"", "a b", "-a", strings.Repeat("a", 65), "a\n"} {
		if _, _, err := NewToken(name, Viewer); err == nil {
			t.Errorf("%q is a name", name)
		}
	}
}

// FuzzTokens: what is read is written as it was, no name has two roles, and an error names
// a line and quotes none.
func FuzzTokens(f *testing.F) {
	f.Add("amy viewer " + digestOf("a") + "\n\n# x\r\nbob admin " + digestOf("b"))
	f.Add("amy viewer " + digestOf("a") + "\namy admin " + digestOf("b"))
	f.Add("plumb_secretsecret")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := ParseTokens("f", []byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") || len(err.Error()) > 300 {
				t.Fatalf("%v", err)
			}
			return
		}
		var again strings.Builder
		roles := map[string]Role{}
		for _, e := range all {
			if r, known := roles[e.Name]; known && r != e.Role || e.Role == Nobody {
				t.Fatalf("%s is %s and %s", e.Name, r, e.Role)
			}
			roles[e.Name] = e.Role
			again.WriteString(e.String() + "\n")
		}
		twice, err := ParseTokens("f", []byte(again.String()))
		if err != nil || fmt.Sprint(twice) != fmt.Sprint(all) {
			t.Fatalf("%v became %v (%v)", all, twice, err)
		}
	})
}
