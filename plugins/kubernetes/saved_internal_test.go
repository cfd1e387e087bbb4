package kubernetes

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

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
