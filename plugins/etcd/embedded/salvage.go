package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"
)

// KeyValue is a key of the store as it was last written.
type KeyValue struct {
	Key      string `json:"key"`
	Value    []byte `json:"value,omitempty"`
	Revision int64  `json:"revision"`
	Lease    int64  `json:"lease,omitempty"`
	// Deleted: that is what was last done to it.
	Deleted bool `json:"deleted,omitempty"`
}

// told is what the process says that reads: of a key, or how reading ended.
type told struct {
	KeyValue
	// Damage: a part of the database could not be read. What it held may be
	// missing, and what it changed may be told as it was before.
	Damage string `json:"damage,omitempty"`
	End    bool   `json:"end,omitempty"`
}

// readTime bounds the reading of a database.
const readTime = time.Minute

// Salvage reads the keys out of the data of a server that does not run, as far
// as they can be read, sorted. It changes nothing. damage says what could not
// be read, and is empty if everything could.
func Salvage(dir string) (found []KeyValue, damage string) {
	latest, whole := map[string]KeyValue{}, false
	p, err := start(order{Read: database(dir)}, &story{}, func(stdout io.Reader) (failed string) {
		for d := json.NewDecoder(stdout); ; {
			var t told
			if err := d.Decode(&t); err != nil {
				return failed
			}
			switch {
			case t.Damage != "":
				damage, failed = t.Damage, t.Damage
			case t.End:
				whole = true
			case latest[t.Key].Revision <= t.Revision:
				latest[t.Key] = t.KeyValue
			}
		}
	})
	if err != nil {
		return nil, err.Error()
	}
	defer time.AfterFunc(readTime, func() { _ = p.cmd.Process.Kill() }).Stop()
	<-p.done
	if !whole && damage == "" {
		damage = p.end.Error()
	}
	for _, k := range slices.Sorted(maps.Keys(latest)) {
		if !latest[k].Deleted {
			found = append(found, latest[k])
		}
	}
	return found, damage
}

// database is the file with the keys.
func database(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

// tellKeys reads a database, forwards and, if that comes upon damage, from the
// end backwards too: a damaged page costs what is on it and beside it.
func tellKeys(path string, out io.Writer) {
	to := json.NewEncoder(out)
	debug.SetPanicOnFault(true) // a file that was cut ends in its map
	damage := guarded(func() error { return walk(path, to, 1, (*bbolt.Cursor).First, (*bbolt.Cursor).Next) })
	if damage != nil {
		_ = to.Encode(told{Damage: damage.Error()})
		_ = guarded(func() error { return walk(path, to, -1, (*bbolt.Cursor).Last, (*bbolt.Cursor).Prev) })
	}
	_ = to.Encode(told{End: true})
}

// guarded makes a panic an error: bbolt does not expect damage.
func guarded(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	return f()
}

// walk tells the keys from one end of the database on, in the order of their
// revisions: way is 1 forwards and -1 backwards.
func walk(path string, to *json.Encoder, way int, first, next func(*bbolt.Cursor) (k, v []byte)) error {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return fmt.Errorf("member/snap/db: %w", err)
	}
	// Not closed: the process ends, and closing waits for a view that panicked.
	return db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("key"))
		if b == nil {
			return fmt.Errorf("member/snap/db holds no keys")
		}
		c := b.Cursor()
		var last []byte
		for k, v := first(c); k != nil; k, v = next(c) {
			if last != nil && bytes.Compare(k, last) != way { // a page that names one before it would be read for ever
				return fmt.Errorf("member/snap/db: its keys are not in order")
			}
			last = bytes.Clone(k)
			var kv mvccpb.KeyValue
			if err := proto.Unmarshal(v, &kv); err != nil {
				return fmt.Errorf("member/snap/db: a key cannot be read: %w", err)
			}
			rev, deleted, ok := revision(k)
			if !ok {
				return fmt.Errorf("member/snap/db: a key has no revision")
			}
			if err := to.Encode(told{KeyValue: KeyValue{
				Key: string(kv.Key), Value: kv.Value, Revision: rev, Lease: kv.Lease, Deleted: deleted,
			}}); err != nil {
				return err
			}
		}
		return nil
	})
}

// revision reads the name under which the database keeps a key: its revision, a
// line, the place in its transaction, and a t if it was deleted.
func revision(k []byte) (rev int64, deleted, ok bool) {
	const plain = 8 + 1 + 8
	if len(k) != plain && (len(k) != plain+1 || k[plain] != 't') || k[8] != '_' {
		return 0, false, false
	}
	for _, b := range k[:8] {
		rev = rev<<8 | int64(b)
	}
	return rev, len(k) > plain, rev > 0
}
