package fleet

import (
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
)

// OpenQuick opens a fleet that looks for outcomes very often.
func OpenQuick(t *testing.T, url string) *Fleet {
	t.Helper()
	f, err := Open(t.Context(), dial.Config{Endpoints: []string{url}})
	if err != nil {
		t.Fatal(err)
	}
	f.outcomeEvery = 3 * time.Millisecond
	return f
}
