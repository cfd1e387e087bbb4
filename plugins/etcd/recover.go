package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/etcd/embedded"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/plugins/private"
)

// Recover puts the data of a damaged embedded store aside and begins a new
// store, with the keys that can be read. It tells on out what it did. Unless
// forced it leaves a store alone that can be used. It may be called while the
// agent runs, which then uses the new store.
//
// The new store has no id: for the agent it is another one, so what it lacks
// is not withdrawn until an operator accepts it.
func Recover(ctx context.Context, c Config, force bool, out io.Writer) error {
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	if len(c.Endpoints) > 0 {
		return fmt.Errorf("the store is the etcd at %s, which has tools of its own (etcdutl snapshot restore)", c.endpoints())
	}
	member := filepath.Join(c.dataDir(), "member")
	if _, err := os.Stat(member); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no data in %s: the agent begins a new store when it starts", c.dataDir())
	}
	why := "it was to be replaced"
	if !force {
		if why, err = damage(ctx, c); err != nil {
			return err
		}
	}
	// Whoever has the data now is the next attempt of an agent that runs.
	release, err := embedded.Seize(ctx, c.dataDir(), true)
	if err != nil {
		return err
	}
	defer release()
	fmt.Fprintf(out, "the store in %s: %s\n", c.dataDir(), why)
	return replace(ctx, c, out)
}

// damage says why the store cannot be used; that it can is an error.
func damage(ctx context.Context, c Config) (why string, err error) {
	const hint = `; "--force" puts it aside all the same`
	conn, err := dialEmbedded(c.socket())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = withTimeout(ctx, c.tune, func(ctx context.Context) (*etcdserverpb.StatusResponse, error) {
		return services(conn).maint.Status(ctx, &etcdserverpb.StatusRequest{})
	})
	if err == nil {
		return "", fmt.Errorf("the store in %s answers: nothing was done%s", c.dataDir(), hint)
	}
	l, err := openEmbedded(ctx, c, true)
	for end := time.Now().Add(busyTime); isInUse(err) && ctx.Err() == nil && time.Now().Before(end); {
		l, err = openEmbedded(ctx, c, true)
	}
	switch {
	case err == nil:
		l.close()
		return "", fmt.Errorf("the store in %s can be used: nothing was done%s", c.dataDir(), hint)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case isInUse(err):
		return "", fmt.Errorf("a server still reads the data in %s: try again%s", c.dataDir(), hint)
	}
	return err.Error(), nil
}

// busyTime is how long a server may use the data that does not answer: one
// that reads it, or finds out that it does not come to anything.
const busyTime = 30 * time.Second

func isInUse(err error) bool { return err != nil && strings.Contains(err.Error(), embedded.InUse) }

// replace puts the data aside and a new store in its place. Nobody else uses
// the data.
func replace(ctx context.Context, c Config, out io.Writer) error {
	all, lost := embedded.Salvage(c.dataDir())
	found := c.lasting(all)
	next := c.dataDir() + ".new"
	if err := os.RemoveAll(next); err != nil {
		return err
	}
	if lost == "" && len(found) > 0 {
		if err := fill(ctx, c, next, found); err != nil {
			return fmt.Errorf("new store: %w", err)
		}
	}
	aside := fmt.Sprintf("%s.damaged-%s", c.dataDir(), time.Now().UTC().Format("20060102T150405.000Z"))
	if err := os.Mkdir(aside, 0o700); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(c.dataDir(), "member"), filepath.Join(aside, "member")); err != nil {
		return err
	}
	fmt.Fprintf(out, "its data was put aside: %s\n", aside)
	if err := os.Rename(filepath.Join(next, "member"), filepath.Join(c.dataDir(), "member")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_ = os.RemoveAll(next)
	switch {
	case lost == "":
		fmt.Fprintf(out, "the new store has all %d keys that could be read; what was written in the last moments before the damage may be missing\n", len(found))
	case len(found) > 0:
		path := filepath.Join(aside, "intent.json")
		n, err := c.keep(path, found)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "not all keys could be read (%s): the new store is empty, and %d keys of intent, as they were at some time, are in %s\n"+
			"look at that file, mend it, then: agentctl apply -f %s\n", lost, n, path, path)
	default:
		fmt.Fprintf(out, "no key could be read (%s): the new store is empty, and what was wanted in the old one must be written again\n", lost)
	}
	fmt.Fprintln(out, "nothing is deleted for what the new store lacks; when it has all that is wanted: agentctl resync --accept")
	return nil
}

// lasting leaves out what the agent makes anew: statuses, presence, the
// store's id; what ends with a lease; and who wrote which revision, as the new store has
// other revisions.
func (c Config) lasting(all []embedded.KeyValue) (found []embedded.KeyValue) {
	p := c.prefix()
	for _, kv := range all {
		switch name := strings.TrimPrefix(kv.Key, p); {
		case kv.Lease != 0, name == record.PresenceKey, name == "store", name == record.ConvergedKey, name == record.SummaryKey, name == record.OutcomeKey,
			strings.HasPrefix(name, "status/"), strings.HasPrefix(name, models.AuthorPrefix):
		default:
			found = append(found, kv)
		}
	}
	return found
}

// keep writes keys of intent as a file of intent and counts them.
func (c Config) keep(path string, found []embedded.KeyValue) (n int, err error) {
	intent := map[string]json.RawMessage{}
	for _, kv := range found {
		key, ok := strings.CutPrefix(kv.Key, c.prefix()+"config/")
		switch {
		case !ok:
		case json.Valid(kv.Value):
			intent[key] = kv.Value
		default:
			text, err := json.Marshal(string(kv.Value))
			if err != nil {
				return 0, err
			}
			intent[key] = text
		}
	}
	text, err := json.MarshalIndent(map[string]any{"intent": intent}, "", "  ")
	if err != nil {
		return 0, err
	}
	return len(intent), private.WriteFile(path, append(text, '\n'))
}

// fill makes new data with keys.
func fill(ctx context.Context, c Config, dir string, keys []embedded.KeyValue) error {
	e := c.embedded()
	e.Dir, e.Socket = dir, filepath.Join(c.RunDir, "new.sock")
	s, err := embedded.Launch(ctx, e)
	if err != nil {
		return err
	}
	defer s.Close()
	conn, err := dialEmbedded(e.Socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	kv := services(conn).kv
	for len(keys) > 0 {
		var ops []clientv3.Op
		for bytes := 0; len(keys) > 0 && len(ops) < maxStatusTxn && (bytes == 0 || bytes+len(keys[0].Value) < maxStatusBytes); keys = keys[1:] {
			bytes += 1 + len(keys[0].Value)
			ops = append(ops, clientv3.OpPut(keys[0].Key, string(keys[0].Value)))
		}
		if _, err := kv.Txn(ctx).Then(ops...).Commit(); err != nil {
			return err
		}
	}
	return nil
}
