package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

// Two kinds of things on disk: files need the directory that they are in. The
// transaction asks for the file first; the order is the scheduler's business.
func Example() {
	root, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(root)

	dirs := scheduler.Descriptor[bool, struct{}]{
		Name: "dir", Prefix: "dir/",
		Create: func(_ context.Context, k scheduler.Key, _ bool) (struct{}, error) {
			return struct{}{}, os.Mkdir(path(root, k), 0o755)
		},
		Delete: func(_ context.Context, k scheduler.Key, _ bool, _ struct{}) error { return remove(root, k) },
	}
	files := scheduler.Descriptor[string, struct{}]{
		Name: "file", Prefix: "file/",
		Create: func(_ context.Context, k scheduler.Key, text string) (struct{}, error) {
			return struct{}{}, os.WriteFile(path(root, k), []byte(text), 0o644)
		},
		Update: func(_ context.Context, k scheduler.Key, _, text string, _ struct{}) (struct{}, error) {
			return struct{}{}, os.WriteFile(path(root, k), []byte(text), 0o644)
		},
		Delete: func(_ context.Context, k scheduler.Key, _ string, _ struct{}) error { return remove(root, k) },
		Needs: func(k scheduler.Key, _ string) []scheduler.Need {
			in := strings.TrimPrefix(filepath.Dir(string(k)), "file/")
			return []scheduler.Need{scheduler.On(scheduler.Key("dir/"+in), "the directory that it is in")}
		},
	}

	s := scheduler.New(scheduler.Options{})
	dir, _ := scheduler.Register(s, dirs)
	file, _ := scheduler.Register(s, files)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	apply := func(changes ...scheduler.Change) {
		result, err := s.Apply(ctx, scheduler.Txn{Want: changes, Complete: true})
		for _, outcome := range result.Keys {
			fmt.Println(outcome)
		}
		fmt.Println("on disk:", list(root), err)
	}
	apply(file.Set("file/etc/motd", "hello"))
	apply(file.Set("file/etc/motd", "hello"), dir.Set("dir/etc", true))
	apply()

	stop()
	<-ended
	// Output:
	// file/etc/motd pending: needs dir/etc
	// on disk: [] <nil>
	// dir/etc configured
	// file/etc/motd configured
	// on disk: [etc etc/motd] <nil>
	// dir/etc removed
	// file/etc/motd removed
	// on disk: [] <nil>
}

// path is where the thing of a key lies.
func path(root string, k scheduler.Key) string {
	_, name, _ := strings.Cut(string(k), "/")
	return filepath.Join(root, name)
}

// remove deletes the thing of a key; one that is gone already is fine.
func remove(root string, k scheduler.Key) error {
	if err := os.Remove(path(root, k)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// list names all that lies below root.
func list(root string) []string {
	names := []string{}
	_ = filepath.WalkDir(root, func(p string, _ fs.DirEntry, _ error) error {
		if name, err := filepath.Rel(root, p); err == nil && name != "." {
			names = append(names, name)
		}
		return nil
	})
	return names
}
