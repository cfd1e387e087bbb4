package embedded

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"
)

// childDir in the environment makes this binary an agent that is to be killed.
const childDir = "PLUMB_EMBEDDED_CHILD"

func TestMain(m *testing.M) {
	Main()
	os.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector would keep servers for a second
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
	}
	goleak.VerifyTestMain(m)
}

// child starts a server, writes without end and tells how far it came.
func child(dir string) {
	_, err := Start(context.Background(), Config{Dir: filepath.Join(dir, "state", "etcd"), Socket: filepath.Join(dir, "run", "etcd.sock")})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	kv, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(dir, "run", "etcd.sock")}, Logger: zap.NewNop()})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	for i := 0; ; i++ {
		if _, err := kv.Put(context.Background(), "n", fmt.Sprint(i)); err != nil {
			os.Exit(1)
		}
		fmt.Println(i)
	}
}

// Killed at any moment, also within its very first start, the server starts
// again and has everything that it confirmed.
func TestKilledAtAnyMoment(t *testing.T) {
	for i := range 16 {
		dir := t.TempDir()
		for range 2 {
			confirmed := killedChild(t, dir, time.Duration(i)*10*time.Millisecond)
			begin := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			s, err := Start(ctx, Config{Dir: filepath.Join(dir, "state", "etcd"), Socket: filepath.Join(dir, "run", "etcd.sock")})
			cancel()
			if err != nil {
				t.Fatalf("killed after %d ms, it does not start: %v (waited %s)", i*10, err, time.Since(begin))
			}
			resp, err := clientOf(t, filepath.Join(dir, "run", "etcd.sock")).Get(t.Context(), "n")
			s.Close()
			if err != nil {
				t.Fatal(err)
			}
			got := -1
			if resp.Count > 0 {
				fmt.Sscan(string(resp.Kvs[0].Value), &got)
			}
			if got < confirmed {
				t.Errorf("killed after %d ms, it has %d and had confirmed %d", i*10, got, confirmed)
			}
		}
	}
}

// killedChild runs a child for a while and returns the last write that it was
// told of, or -1.
func killedChild(t *testing.T, dir string, life time.Duration) int {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(life, func() { cmd.Process.Kill() })
	confirmed := -1
	for {
		var n int
		if _, err := fmt.Fscanln(out, &n); err != nil {
			break
		}
		confirmed = n
	}
	cmd.Wait()
	return confirmed
}
