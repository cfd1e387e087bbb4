package kubernetes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/models"
)

// TestCopyOfBusyNode: pods that change all the time do not keep the copy from being written.
func TestCopyOfBusyNode(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pods.json")
	synctest.Test(t, func(t *testing.T) {
		s := New(&history{}, Options{Node: "n0", Kubeconfig: "none", File: file, Decode: models.Decode, Attached: func(string) bool { return false }})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		for i := range 12 {
			o := &object{}
			o.Namespace, o.Name, o.UID, o.ResourceVersion = "shop", "web", types.UID(fmt.Sprint("u", i)), fmt.Sprint(100+i)
			if err := s.store.Add(o); err != nil {
				t.Fatal(err)
			}
			time.Sleep(saveDelay / 4)
		}
		if saved, err := readCopy(file); err != nil || len(saved.Pods) != 1 {
			t.Errorf("after three seconds the copy has %d pods: %v", len(saved.Pods), err)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestReadOldCopy reads a copy of a version that knew no PodIntents.
func TestReadOldCopy(t *testing.T) {
	const data = `{"version":"7","pods":[{"namespace":"shop","name":"web","uid":"a","runtime_uid":"a","version":"5","intent":"{}"}]}`
	file := filepath.Join(t.TempDir(), "pods.json")
	text := fmt.Sprintf("plumb pods 1\n%x\n%s\n", sha256.Sum256([]byte(data)), data)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	saved, err := readCopy(file)
	if err != nil {
		t.Fatal(err)
	}
	if saved.Version != "7" || len(saved.Pods) != 1 || saved.Pods[0].Path() != "shop/web" || len(saved.PodIntents) != 0 {
		t.Errorf("the copy is %+v", saved)
	}
}
