package tlsfiles_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/access/accesstest"
	"github.com/plumb-net/plumb/plugins/tlsfiles"
)

// TestOpen: what is wrong with files is told with the file, and never what is in it.
func TestOpen(t *testing.T) {
	ca := accesstest.New(t)
	good, other := ca.Issue(accesstest.Cert{Name: "a"}), ca.Issue(accesstest.Cert{Name: "b"})
	text, err := os.ReadFile(ca.File)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, tc := range []struct {
		files tlsfiles.Files
		want  string
	}{
		{tlsfiles.Files{}, "<nil>"},
		{tlsfiles.Files{Cert: good.Cert, Key: good.Key, CA: ca.File}, "<nil>"},
		{tlsfiles.Files{CA: write("two", string(text)+"a comment\n"+string(text))}, "<nil>"},
		{tlsfiles.Files{Cert: good.Cert}, "x: a certificate needs its key and the key its certificate"},
		{tlsfiles.Files{Key: good.Key}, "x: a certificate needs its key and the key its certificate"},
		{tlsfiles.Files{Cert: good.Cert, Key: other.Key}, "x certificate: " + good.Cert + " and " + other.Key + ": private key does not match public key"},
		{tlsfiles.Files{Cert: good.Key, Key: good.Key}, "x certificate: " + good.Key + " and " + good.Key + ": failed to find certificate PEM data"},
		{tlsfiles.Files{Cert: good.Cert, Key: "/none"}, "x certificate: open /none: no such file or directory"},
		{tlsfiles.Files{CA: "/none"}, "x CA: open /none: no such file or directory"},
		{tlsfiles.Files{CA: write("empty", "")}, "/empty holds no certificate in PEM form"},
		{tlsfiles.Files{CA: good.Key}, `holds "PRIVATE KEY", want certificates alone`},
		{tlsfiles.Files{CA: write("cut", string(text)+string(text[:len(text)/2]))}, "/cut holds a damaged certificate"},
		{tlsfiles.Files{CA: write("spoilt", string(text[:60])+"?"+string(text[60:])+string(text))}, "/spoilt holds a damaged certificate"},
		{tlsfiles.Files{CA: write("der", strings.Replace(string(text), "MII", "MIA", 1))}, "/der holds a damaged certificate"},
	} {
		_, err := tlsfiles.Open(tc.files, tlsfiles.Options{Whose: "x", Read: os.ReadFile, ReadKey: os.ReadFile})
		if got := fmt.Sprint(err); !strings.Contains(got, tc.want) {
			t.Errorf("%+v\n got %s\nwant %s", tc.files, got, tc.want)
		}
	}
}
