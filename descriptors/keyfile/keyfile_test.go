package keyfile

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestHolds: a key is there if its file holds a key, or if something that exists was made with a file that
// does not exist any more. A file that cannot be used makes it unknown.
func TestHolds(t *testing.T) {
	broken := errors.New("it holds no key")
	synctest.Test(t, func(t *testing.T) {
		files := map[string]error{"/good": nil, "/broken": broken}
		change := make(chan string)
		s := scheduler.New(scheduler.Options{Sources: []string{"test"}})
		_, err := scheduler.Register(s, New(Deps{
			Check: func(file string) error {
				if err, is := files[file]; is {
					return err
				}
				return fs.ErrNotExist
			},
			InUse:   func(file string) bool { return file == "/used" },
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
		}))
		if err != nil {
			t.Fatal(err)
		}
		user := scheduler.Property[string]("user", "user/")
		user.Needs = func(_ scheduler.Key, file string) []scheduler.Need {
			return []scheduler.Need{scheduler.On(scheduler.Key(models.KeyFileKey(file)), "its file")}
		}
		users, err := scheduler.Register(s, user)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		defer func() { stop(); <-ended }()
		var want []scheduler.Change
		for _, file := range []string{"/good", "/broken", "/late", "/used"} {
			want = append(want, users.Set(scheduler.Key("user"+file), file))
		}
		if _, err := s.Apply(ctx, scheduler.Txn{Source: "test", Want: want, Complete: true}); err != nil {
			t.Fatal(err)
		}
		configured := func(want ...scheduler.Key) {
			t.Helper()
			synctest.Wait()
			all, err := s.List(ctx, "user/")
			if err != nil {
				t.Fatal(err)
			}
			var got []scheduler.Key
			for _, st := range all {
				if st.State == scheduler.Configured {
					got = append(got, st.Key)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("configured are %v, want %v", got, want)
			}
		}
		configured("user/good", "user/used")
		files["/late"], files["/broken"] = nil, nil
		change <- "/late"
		configured("user/good", "user/late", "user/used")
		change <- "/broken"
		configured("user/broken", "user/good", "user/late", "user/used")
		files["/good"] = broken
		change <- "/good"
		configured("user/broken", "user/good", "user/late", "user/used") // what is there stays
	})
}
