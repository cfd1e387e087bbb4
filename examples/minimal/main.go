// Command minimal keeps the files of a directory as they are wanted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

type (
	none  = struct{} // what is remembered of a file that was made
	found = scheduler.Found[string, none]
)

// files is the kind of thing: a file of the directory and its text. A line
// "include base" needs the file base.
func files(dir string) scheduler.Descriptor[string, none] {
	path := func(k scheduler.Key) string { return filepath.Join(dir, strings.TrimPrefix(string(k), "file/")) }
	return scheduler.Descriptor[string, none]{
		Name: "file", Prefix: "file/",
		Create: func(_ context.Context, k scheduler.Key, text string) (none, error) {
			return none{}, os.WriteFile(path(k), []byte(text), 0o600)
		},
		Delete: func(_ context.Context, k scheduler.Key, _ string, _ none) error {
			if err := os.Remove(path(k)); !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil // gone already is as good
		},
		Needs: func(_ scheduler.Key, text string) (needs []scheduler.Need) {
			if _, name, ok := strings.Cut(text, "include "); ok {
				needs = append(needs, scheduler.On(scheduler.Key("file/"+name), "the file that it includes"))
			}
			return needs
		},
		Retrieve: func(_ context.Context, s scheduler.Scope[string, none]) iter.Seq2[found, error] {
			return func(yield func(found, error) bool) {
				keys, err := s.Keys, error(nil)
				if s.All {
					keys, err = list(dir)
				}
				if err != nil {
					yield(found{}, err) // unknown, which is not the same as empty
					return
				}
				for _, k := range keys {
					text, err := os.ReadFile(path(k))
					if !errors.Is(err, fs.ErrNotExist) && !yield(found{Key: k, Value: string(text)}, err) {
						return
					}
				}
			}
		},
	}
}

func list(dir string) (keys []scheduler.Key, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		keys = append(keys, scheduler.Key("file/"+e.Name()))
	}
	return keys, err
}

func main() {
	dir, _ := os.MkdirTemp("", "minimal")
	defer os.RemoveAll(dir)
	s := scheduler.New(scheduler.Options{})
	file, err := scheduler.Register(s, files(dir))
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()

	apply := func(what string, t scheduler.Txn) {
		result, err := s.Apply(ctx, t)
		fmt.Println(what, err)
		for _, outcome := range result.Keys {
			fmt.Println("   ", outcome)
		}
	}
	site, base := file.Set("file/site", "include base"), file.Set("file/base", "colour blue")
	apply("want site:", scheduler.Txn{Want: []scheduler.Change{site}})
	apply("want base as well:", scheduler.Txn{Want: []scheduler.Change{base}})
	_ = os.Remove(filepath.Join(dir, "base"))
	apply("somebody removed base, look:", scheduler.Txn{Look: []scheduler.Key{"file/base"}})
	apply("want nothing any more:", scheduler.Txn{Complete: true})
	stop()
	fmt.Println("end:", <-ended)
}
