package host

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
)

// Main runs the tests, then ends what they share.
func Main(m *testing.M) int {
	code := m.Run()
	shared.close()
	return code
}

// shared is what outlives a test: the engine and the binaries.
var shared = &binary{}

// binary is a [testing.TB] for what the tests of a binary share. A failure ends
// the goroutine and is kept for the test that asked.
type binary struct {
	testing.TB

	mu     sync.Mutex
	ends   []func()
	failed string
	skip   string
}

// run calls f in a goroutine that a failure may end; whoever asked fails with it.
func (b *binary) run(t testing.TB, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
	b.mu.Lock()
	failed, skip := b.failed, b.skip
	b.mu.Unlock()
	switch {
	case failed != "":
		t.Fatal(failed)
	case skip != "":
		t.Skip(skip)
	}
}

func (b *binary) close() {
	b.mu.Lock()
	ends := b.ends
	b.ends = nil
	b.mu.Unlock()
	for i := len(ends) - 1; i >= 0; i-- {
		ends[i]()
	}
}

// Helper implements [testing.TB], as do the others.
func (b *binary) Helper() {}

// Cleanup registers what is called when all tests are over.
func (b *binary) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = append(b.ends, f)
}

// Fatal fails every test that asks from now on.
func (b *binary) Fatal(args ...any) { b.end(&b.failed, fmt.Sprint(args...)) }

// Fatalf is Fatal with a format.
func (b *binary) Fatalf(format string, args ...any) { b.end(&b.failed, fmt.Sprintf(format, args...)) }

// Skip skips every test that asks from now on.
func (b *binary) Skip(args ...any) { b.end(&b.skip, fmt.Sprint(args...)) }

func (b *binary) end(reason *string, text string) {
	b.mu.Lock()
	*reason = text
	b.mu.Unlock()
	runtime.Goexit()
}

// TempDir is gone when all tests are over.
func (b *binary) TempDir() string {
	dir, err := os.MkdirTemp("", "plumb-e2e-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
