package file

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOnlyFilesOfTheDirectory: what is not a regular file of the directory is refused,
// and nothing is waited for. Symbolic links that stay within work, as those of a
// ConfigMap do.
func TestOnlyFilesOfTheDirectory(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "intent")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	must(os.MkdirAll(at("..2026_01"), 0o755))
	must(os.WriteFile(at("..2026_01/map.yaml"), []byte("mapped"), 0o644))
	must(os.Symlink("..2026_01", at("..data")))
	must(os.Symlink("..data/map.yaml", at("map.yaml")))
	must(os.WriteFile(at("plain.yaml"), []byte("plain"), 0o644))
	must(os.WriteFile(filepath.Join(top, "shadow"), []byte("secret"), 0o600))
	must(os.Symlink("../shadow", at("out.yaml")))
	must(os.Symlink(filepath.Join(top, "shadow"), at("absolute.yaml")))
	must(os.Symlink("..", at("up")))
	must(os.Symlink("up/shadow", at("over.yaml")))
	must(os.Symlink("loop.yaml", at("loop.yaml")))
	must(syscall.Mkfifo(at("pipe.yaml"), 0o644))
	must(os.Symlink("pipe.yaml", at("topipe.yaml")))
	must(syscall.Mknod(at("device.yaml"), syscall.S_IFCHR|0o644, 1<<8|3)) // /dev/null
	l, err := net.Listen("unix", at("socket.yaml"))
	must(err)
	defer l.Close()
	must(os.Mkdir(at("directory.yaml"), 0o755))

	found, _, err := look(dir)
	must(err)
	want := map[string]string{
		"map.yaml": "mapped", "plain.yaml": "plain",
		"out.yaml": "! out of the directory", "absolute.yaml": "! out of the directory", "over.yaml": "! out of the directory",
		"loop.yaml": "! too many", "pipe.yaml": "! no regular file", "topipe.yaml": "! no regular file",
		"device.yaml": "! no regular file", "socket.yaml": "! no regular file",
	}
	for name, c := range found {
		problem, bad := strings.CutPrefix(want[name], "! ")
		switch {
		case want[name] == "":
			t.Errorf("%s was read: %v", name, c.err)
		case bad && (c.err == nil || !strings.Contains(c.err.Error(), problem) || !strings.Contains(c.err.Error(), at(name))):
			t.Errorf("%s: %v, want %s", name, c.err, problem)
		case !bad && (c.err != nil || string(c.data) != problem):
			t.Errorf("%s: %q, %v, want %q", name, c.data, c.err, problem)
		}
	}
	if len(found) != len(want) {
		t.Errorf("found %d files, want %d", len(found), len(want))
	}
}

// TestErrorsQuoteNoContent: whoever has /etc/shadow or a file with a password read as
// intent is not told what is in it.
func TestErrorsQuoteNoContent(t *testing.T) {
	const secret = "$6$Zm9vYmFy$hunter2"
	for _, text := range []string{
		"root:" + secret + ":19000:0:99999:7:::\n",
		"root: " + secret + "\n",
		"a: b\n" + secret + ": c\n",
		secret + "\n",
		"*" + secret + "\n",
		"x: *" + secret + "\n",
		"'" + secret + "\n",
		"key: " + secret + "\nvalue: 1\nkey: 2\n",
		"key: " + secret + "\n",
		"intent:\n  " + secret + ": !x 1\n",
		"intent: {}\n" + secret + ": 1\n",
		"{\"intent\": {\"" + secret + "\": }}",
		"%" + secret + "\n---\n",
		"!" + secret + " x\n",
		"&" + secret + "\n",
	} {
		for _, name := range []string{"f.yaml", "f.json"} {
			if _, err := DecodeDocuments([]byte(text), name); err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
}
