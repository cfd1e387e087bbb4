package arch

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// embedder is a program of somebody else that imports the scheduler.
const embedder = `package main

import (
	"context"
	"fmt"

	"` + module + `/scheduler"
)

func main() {
	s := scheduler.New(scheduler.Options{})
	_, err := scheduler.Register(s, scheduler.Descriptor[string, struct{}]{
		Name: "thing", Prefix: "thing/",
		Create: func(context.Context, scheduler.Key, string) (struct{}, error) { return struct{}{}, nil },
		Delete: func(context.Context, scheduler.Key, string, struct{}) error { return nil },
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	r, failed := s.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("thing/x", "x")}})
	fmt.Println(r.Keys[0].Key, r.Keys[0].State, err, failed)
	stop()
	<-ended
}
`

const embedderTest = `package main

import (
	"testing"

	"` + module + `/scheduler/schedulertest"
)

func TestWorld(t *testing.T) {
	if w := schedulertest.NewWorld(); len(w.Objects()) != 0 {
		t.Error(w)
	}
}
`

// TestEmbedding: who imports the scheduler, or tests with schedulertest, gets no
// module of others. It is built without a network and with an empty cache of
// modules, where nothing but the standard library can be found.
func TestEmbedding(t *testing.T) {
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	version := strings.TrimSpace(string(command(t, "go", "list", "-m", "-f", "{{.GoVersion}}")))
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/embedder\n\ngo " + version + "\n\nrequire " + module + " v0.0.0\n\nreplace " +
			module + " => " + top + "\n",
		"main.go": embedder, "main_test.go": embedderTest,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GOPROX"+"Y=off", "GOTOOLCHAIN=local", "GOMODCACHE="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	if got, want := run("run", "."), "thing/x configured <nil> <nil>\n"; got != want {
		t.Errorf("the program prints %q, want %q", got, want)
	}
	run("vet", ".")
	for dep := range strings.FieldsSeq(run("list", "-deps", "-test", "-f", "{{if not .ForTest}}{{.ImportPath}}{{end}}", ".")) {
		if !standard(dep) && !strings.HasPrefix(dep, module+"/scheduler") && !strings.HasPrefix(dep, "example.com/embedder") {
			t.Errorf("the program is built from %s", dep)
		}
	}
}
