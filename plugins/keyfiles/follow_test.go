package keyfiles

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFollow: a file is noticed when its directory is made, when it is written, replaced, closed to others
// and deleted, and when its directory goes and comes back.
func TestFollow(t *testing.T) {
	root := t.TempDir()
	dir, file := filepath.Join(root, "a", "b"), filepath.Join(root, "a", "b", "key")
	ctx, stop := context.WithCancel(context.Background())
	more, changed, done := make(chan struct{}), make(chan string, 100), make(chan error)
	go func() {
		done <- Follow(ctx, func() []string { return []string{file} }, more, func(f string) { changed <- f })
	}()
	more <- struct{}{} // it has looked once
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	noticed := func(what string) {
		t.Helper()
		select {
		case f := <-changed:
			if f != file {
				t.Fatalf("%s: %s", what, f)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nothing was noticed", what)
		}
	}
	write := func(path, text string) { must(os.WriteFile(path, []byte(text), 0o600)) }
	noticed("followed")
	must(os.MkdirAll(dir, 0o700))
	write(file, "one")
	noticed("written")
	write(file+".new", "three")
	must(os.Rename(file+".new", file))
	noticed("replaced")
	must(os.Chmod(file, 0o644))
	noticed("chmod")
	must(os.RemoveAll(filepath.Join(root, "a")))
	noticed("removed")
	for len(changed) > 0 {
		<-changed
	}
	must(os.MkdirAll(dir, 0o700))
	write(file, "four")
	noticed("written once more")
	stop()
	if err := <-done; err != context.Canceled {
		t.Error(err)
	}
}
