package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func launch(t *testing.T, dir string) (*Process, error) {
	t.Helper()
	return Launch(t.Context(), Config{Dir: filepath.Join(dir, "etcd"), Socket: filepath.Join(dir, "run", "s")})
}

// The server is another process. It ends when it is closed, and when it dies
// that is said; what it confirmed is there afterwards.
func TestTheServerIsAProcessOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	p, err := launch(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	kv := clientOf(t, filepath.Join(dir, "run", "s"))
	if _, err := kv.Put(t.Context(), "a", "1"); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // to the whole group, when somebody stops the agent
	if _, err := kv.Put(t.Context(), "b", "2"); err != nil {
		t.Fatal(err)
	}
	_ = p.cmd.Process.Kill()
	<-p.Done()
	if err := p.Err(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("it died of %v", err)
	}
	p.Close()
	p, err = launch(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := kv.Get(t.Context(), "b"); err != nil || r.Count != 1 {
		t.Errorf("%v, %v", r, err)
	}
	p.Close()
	select {
	case <-p.Done():
	default:
		t.Error("it has not ended")
	}
}

// What etcd dies of is in the error.
func TestDamageIsTold(t *testing.T) {
	for file, want := range map[string]string{
		"snap/db": "failed to open database: invalid database",
		"wal/0000000000000000-0000000000000000.wal": "panic: ",
	} {
		dir := t.TempDir()
		p, err := launch(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		p.Close()
		f, err := os.OpenFile(filepath.Join(dir, "etcd", "member", file), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at := range int64(4) { // both descriptions of a database
			_, err = f.WriteAt([]byte("noise and more noise"), at*4096+100)
			_, err2 := f.WriteAt([]byte("noise and more noise"), at*4096+16)
			if err = errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
		}
		f.Close()
		if p, err = launch(t, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
		if err == nil {
			p.Close()
		}
	}
}

// A start that takes long ends when nobody waits for it.
func TestLaunchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	cancel(enough)
	dir := t.TempDir()
	if _, err := Launch(ctx, Config{Dir: filepath.Join(dir, "etcd"), Socket: filepath.Join(dir, "s")}); !errors.Is(err, enough) {
		t.Error(err)
	}
}

// Seizing waits for a server that ends, and forced it ends one.
func TestSeize(t *testing.T) {
	dir := t.TempDir()
	p, err := launch(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := Seize(ctx, filepath.Join(dir, "etcd"), false); err == nil || !strings.Contains(err.Error(), InUse) {
		t.Errorf("a server runs: %v", err)
	}
	release, err := Seize(t.Context(), filepath.Join(dir, "etcd"), true)
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	release()
}

// Salvage reads the last value of each key, and says what it cannot read.
func TestSalvage(t *testing.T) {
	dir := t.TempDir()
	p, err := launch(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	kv := clientOf(t, filepath.Join(dir, "run", "s"))
	for i := range 300 {
		if _, err := kv.Put(t.Context(), fmt.Sprintf("k%03d", i%100), fmt.Sprint(i, strings.Repeat("x", 500))); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := kv.Delete(t.Context(), "k007"); err != nil {
		t.Fatal(err)
	}
	p.Close()
	data := filepath.Join(dir, "etcd")
	found, damage := Salvage(data)
	if damage != "" || len(found) != 99 || found[0].Key != "k000" || !strings.HasPrefix(string(found[8].Value), "209x") {
		t.Fatalf("%d keys, damage %q", len(found), damage)
	}
	whole, err := os.ReadFile(database(data))
	if err != nil {
		t.Fatal(err)
	}
	partly := 0
	r := rand.New(rand.NewPCG(1, 2))
	for tries := 0; tries < 12 || partly == 0 && tries < 100; tries++ {
		at := r.IntN(len(whole)/4096) * 4096
		if bytes.Count(whole[at:at+4096], []byte{0}) == 4096 {
			continue
		}
		bad := append([]byte(nil), whole...)
		for i := range 4096 {
			bad[at+i] ^= 0x55
		}
		if err := os.WriteFile(database(data), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		found, damage := Salvage(data)
		if damage == "" && len(found) != 99 {
			t.Errorf("page %d damaged: %d keys, and nothing is said to be missing", at/4096, len(found))
		}
		if damage != "" && len(found) > 0 {
			partly++
		}
	}
	if partly == 0 {
		t.Error("no damage left a part that can be read")
	}
	if err := os.Truncate(database(data), int64(len(whole)/3)); err != nil {
		t.Fatal(err)
	}
	if found, damage := Salvage(data); damage == "" {
		t.Errorf("cut: %d keys, and nothing is said to be missing", len(found))
	}
}

// FuzzStory: whatever a process writes, it is taken for a log or for a panic.
func FuzzStory(f *testing.F) {
	f.Add([]byte(`{"time":"x","level":"ERROR","msg":"etcd says","message":"failed","error":"why"}` + "\n"))
	f.Add([]byte("panic: assertion failed\n\ngoroutine 1 [running]:\n"))
	f.Add([]byte(`{"level":7}` + "\n{}\n[\n" + strings.Repeat("x", maxLine+10) + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s := &story{log: slog.New(slog.NewTextHandler(new(strings.Builder), nil))}
		s.read(strings.NewReader(string(text)))
		if len(s.last()) > 8*maxLine {
			t.Errorf("%d bytes", len(s.last()))
		}
	})
}
