package safetext_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/plumb-net/plumb/plugins/safetext"
)

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä 漢 🙂":                  "plain ä 漢 🙂",
		"\x1b]0;title\a\x1b[2J":        `\x1b]0;title\x07\x1b[2J`,
		"a\nb\tc\rd":                   `a\nb\tc\rd`,
		"\u009b31m":                    `\u009b31m`,
		"\x9b31m":                      `\x9b31m`,
		"abc\u202etxt.exe\u2066\u200b": `abc\u202etxt.exe\u2066\u200b`,
		"\u2028\U000e0041\x7f":         `\u2028\U000e0041\x7f`,
	} {
		if got := safetext.Line(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
	if got := safetext.Text("a\n\tb\x1b"); got != "a\n\tb\\x1b" {
		t.Errorf("got %q", got)
	}
}

func TestMask(t *testing.T) {
	for in, want := range map[string]string{
		"http://root:pa55@10.0.0.1:2379/x":                                     "http://root:***@10.0.0.1:2379/x",
		"a http://u:p@ss:w@h, https://x":                                       "a http://u:***@h, https://x",
		"tcp://:secretpw@h":                                                    "tcp://:***@h",
		"https://0123456789abcdef01234567@h/r":                                 "https://***@h/r",
		"http://host:2379":                                                     "http://host:2379",
		"cmd --password=x --port=1":                                            "cmd --password=*** --port=1",
		"cmd --db-password 'a b' --port 1":                                     "cmd --db-password *** --port 1",
		"--no-password --port 1":                                               "--no-password --port 1",
		"password: hunter2, user: me":                                          "password: ***, user: me",
		`PGPASSWORD="a b" psql`:                                                "PGPASSWORD=*** psql",
		"AWS AKIAIOSFODNN7EXAMPLE here":                                        "AWS *** here",
		"aws_secret_access_key = wJalrXUtnFEMI/K":                              "aws_secret_access_key = ***",
		"Authorization: Bearer abcdef.ghi":                                     "Authorization: Bearer ***",
		"bearer abcdefghijklmnopqrst":                                          "bearer ***",
		"x eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-_ y":                       "x *** y",
		"-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----": "***",
		"-----BEGIN PRIVATE KEY-----\nMIIE":                                    "***",
		"ghp_0123456789abcdefghij0123":                                         "***",
		`{"user":"me","token":"abc","n":{"api_key":12}}`:                       `{"user":"me","token":"***","n":{"api_key":"***"}}`,
		`["run","--password","x","--token=y"]`:                                 `["run","--password","***","--token=***"]`,
		`{"cfg":"{\"password\":\"a b\",\"host\":\"h\"}"}`:                      `{"cfg":"{\"password\":\"***\",\"host\":\"h\"}"}`,
		`{"credentials":{"user":"a","list":["b"]},"on":true}`:                  `{"credentials":{"user":"***","list":["***"]},"on":true}`,
		"the interface is down":                                                "the interface is down",
	} {
		if got := safetext.Mask(in); got != want {
			t.Errorf("%s\n got %s\nwant %s", in, got, want)
		}
	}
}

// FuzzSafe: nothing unsafe is left, what is safe stays, and JSON means the same.
func FuzzSafe(f *testing.F) {
	for _, s := range []string{"a", "\x1b[0m", "\u202e", "\xff", `{"password":"x"}`, "http://a:b@c", "--token x", "[[[", `{"a":[1,{"token":[null,""]}]}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range safetext.Line(s) {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				t.Fatalf("%q is left of %q", r, s)
			}
		}
		if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0 && safetext.Line(s) != s {
			t.Fatalf("%q is changed", s)
		}
		_ = safetext.Mask(s)
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back, plain string
		if err := json.Unmarshal(safetext.JSON(text), &back); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &plain); err != nil || back != plain {
			t.Fatalf("%q became %q", plain, back)
		}
		if !json.Valid([]byte(s)) {
			return
		}
		out, err := safetext.MaskJSON([]byte(s))
		if err == nil && !json.Valid(out) {
			t.Fatalf("%s became %s", s, out)
		}
		twice, err2 := safetext.MaskJSON(out)
		if err == nil && (err2 != nil || !bytes.Equal(out, twice)) {
			var a, b any
			if json.Unmarshal(out, &a) == nil && json.Unmarshal(twice, &b) == nil && !reflect.DeepEqual(a, b) {
				t.Logf("%s is masked further to %s", out, twice)
			}
		}
	})
}
