package etcd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWarnings: what is wrong with how a password is kept and sent is said.
func TestWarnings(t *testing.T) {
	open, closed := filepath.Join(t.TempDir(), "open"), filepath.Join(t.TempDir(), "closed")
	for file, mode := range map[string]os.FileMode{open: 0o644, closed: 0o600} {
		if err := os.WriteFile(file, []byte("secret"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		config Config
		want   string
	}{
		"well":                    {Config{Endpoints: []string{"https://a:1"}, User: "u", PasswordFile: closed}, ""},
		"no password":             {Config{Endpoints: []string{"http://a:1"}}, ""},
		"a socket":                {Config{Endpoints: []string{"unix:///s"}, User: "u", PasswordFile: closed}, ""},
		"bare, with TLS":          {Config{Endpoints: []string{"a:1"}, User: "u", PasswordFile: closed, CAFile: "ca"}, ""},
		"file":                    {Config{Endpoints: []string{"https://a:1"}, User: "u", PasswordFile: open}, "which others can read (mode 0644): chmod 600 " + open},
		"key":                     {Config{Endpoints: []string{"https://a:1"}, CertFile: open, KeyFile: open}, "the key of the certificate of etcd is in " + open},
		"plain":                   {Config{Endpoints: []string{"http://127.0.0.1:1"}, User: "u", PasswordFile: closed}, "goes to http://127.0.0.1:1 without encryption"},
		"bare":                    {Config{Endpoints: []string{"a:1"}, User: "u", PasswordFile: closed}, "goes to a:1 without encryption"},
		"a password in a address": {Config{Endpoints: []string{"https://u:p@a:1"}}, "names a user: that is not used"},
	} {
		got := strings.Join(tc.config.warnings(), "\n")
		if tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
