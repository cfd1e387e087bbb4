// Command minimal keeps the files of a directory as they are wanted.
package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

type (
	none  = struct{} // what an operation remembers of a file that it made
	scope = scheduler.Scope[string, none]
	found = scheduler.Found[string, none]
)

// files is the kind of thing. A file that begins with "include x" needs file/x.
func files(dir string) scheduler.Descriptor[string, none] {
	path := func(k scheduler.Key) string { return filepath.Join(dir, filepath.Base(string(k))) }
	return scheduler.Descriptor[string, none]{
		Name: "file", Prefix: "file/",
		Create: func(_ context.Context, k scheduler.Key, text string) (none, error) {
			return none{}, os.WriteFile(path(k), []byte(text), 0o600)
		},
		Delete: func(_ context.Context, k scheduler.Key, _ string, _ none) error { return os.RemoveAll(path(k)) },
		Needs: func(_ scheduler.Key, text string) (needs []scheduler.Need) {
			if name, ok := strings.CutPrefix(text, "include "); ok {
				needs = append(needs, scheduler.On(scheduler.Key("file/"+name), "the file that it includes"))
			}
			return needs
		},
		Retrieve: func(_ context.Context, s scope) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				entries, err := os.ReadDir(dir)
				if err != nil {
					yield(found{}, err) // unknown, which is not the same as empty
				}
				for _, e := range entries {
					k := scheduler.Key("file/" + e.Name())
					text, err := os.ReadFile(path(k))
					if s.Has(k) && !yield(found{Key: k, Value: string(text)}, err) {
						return
					}
				}
			}
		},
	}
}

func main() {
	dir, _ := os.MkdirTemp("", "minimal")
	defer os.RemoveAll(dir)
	s := scheduler.New(scheduler.Options{})
	file, _ := scheduler.Register(s, files(dir))
	ctx, stop := context.WithCancel(context.Background())
	go func() { _ = s.Run(ctx) }()
	apply := func(what string, t scheduler.Txn) {
		result, err := s.Apply(ctx, t)
		fmt.Println(what, result.Keys, err)
	}
	apply("site:", scheduler.Txn{Want: []scheduler.Change{file.Set("file/site", "include base")}})
	apply("base as well:", scheduler.Txn{Want: []scheduler.Change{file.Set("file/base", "colour blue")}})
	_ = os.Remove(filepath.Join(dir, "base"))
	apply("somebody removed base:", scheduler.Txn{Look: []scheduler.Key{"file/base"}})
	apply("nothing any more:", scheduler.Txn{Complete: true})
	stop()
}
