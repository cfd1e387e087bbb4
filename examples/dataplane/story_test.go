package main

import (
	"bytes"
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

var rewrite = flag.Bool("rewrite", false, "write what is told into testdata/story.txt")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestStory: the story is told as it is written.
func TestStory(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out bytes.Buffer
	if err := tell(ctx, &out, netlinktest.New(t).Path); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	const golden = "testdata/story.txt"
	if *rewrite {
		if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("told:\n%s\nwritten:\n%s", out.String(), want)
	}
}
