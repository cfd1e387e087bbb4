package api

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// wish is one key of a request and what should be there.
type wish struct {
	key string
	// text is what is written into the store: canonical JSON, or as it came
	// if it is invalid and forced.
	text []byte
	// message is the value; nil when it is invalid, and then err says why.
	message proto.Message
	err     error
}

// forceHint is the way out of a refusal to write.
const forceHint = "\nnothing was written; --force writes it all the same"

// few values are not worth several processors.
const few = 256

// wishes reads the items of a request. Invalid ones are refused, all in one
// error, unless they are forced.
func (s *Server) wishes(items []*apiv1.Item, force bool, hint string) ([]wish, error) {
	place := make(map[string]string, len(items))
	for i, item := range items {
		if err := checkStoreKey(item.Key); err != nil {
			return nil, err
		}
		where := item.Where
		if where == "" {
			where = fmt.Sprintf("item %d", i+1)
		}
		if first, twice := place[item.Key]; twice {
			return nil, refuse("%s is given twice, in %s and in %s", item.Key, first, where)
		}
		place[item.Key] = where
	}
	out, errs := make([]wish, len(items)), make([]error, len(items))
	workers := 1
	if len(items) > few {
		workers = runtime.GOMAXPROCS(0)
	}
	several(len(items), workers, func(i int) bool {
		out[i], errs[i] = s.readWish(items[i])
		return true
	})
	var bad []invalidItem
	for i, w := range out {
		if errs[i] != nil {
			return nil, errs[i]
		}
		if w.err != nil && !force {
			bad = append(bad, invalid(items[i], w.err))
		}
	}
	if len(bad) > 0 {
		return nil, refuseValues(bad, hint)
	}
	return out, nil
}

func (s *Server) readWish(item *apiv1.Item) (wish, error) {
	text := []byte(item.Text)
	switch {
	case item.Value != nil && item.Text != "":
		return wish{}, refuse("%s: value and text are given; one is enough", item.Key)
	case item.Value != nil:
		var err error
		if text, err = protojson.Marshal(item.Value); err != nil {
			return wish{}, refuse("%s: %w", item.Key, err)
		}
	}
	w := wish{key: item.Key, text: text}
	if w.message, w.err = s.Decode(item.Key, text); w.err == nil {
		w.text = models.Encode(w.message)
	}
	return w, nil
}

func invalid(item *apiv1.Item, err error) invalidItem {
	bad := invalidItem{key: item.Key, where: item.Where}
	var fields *models.InvalidError
	if errors.As(err, &fields) {
		bad.fields = fields.Fields
	} else {
		bad.fields = []models.FieldError{{Error: err.Error()}}
	}
	return bad
}

// checkStoreKey refuses what would leave the part of the store that it is for.
// Whether it is a good key is for the models to say.
func checkStoreKey(key string) error {
	switch {
	case key == "":
		return refuse("the key is empty; a key is <kind>/<name>, for example interface/web")
	case strings.HasPrefix(key, "/"):
		return refuse("%q begins with a slash; keys are short here, for example interface/web", key)
	}
	return nil
}

// checkDelete refuses to withdraw what is not in the store and yet is there for
// another reason. A key that is nowhere is fine.
func (s *Server) checkDelete(ctx context.Context, key string) error {
	kind, _, err := models.SplitKey(key)
	if err != nil {
		return refuse("%w", err)
	}
	if k, _ := models.KindByName(kind); !k.Writable {
		return refuse("%s is observed and cannot be deleted", key)
	}
	st, err := s.Scheduler.Get(ctx, scheduler.Key(key))
	switch {
	case errors.Is(err, scheduler.ErrUnknownKey):
		return nil
	case err != nil:
		return fail(err)
	case st.Base != "":
		return refuse("%s is derived from %s; change that", key, st.Base)
	case st.Origin == "" || st.Origin == s.StoreSource:
		return nil
	}
	return notNow("%s is owned by %s; delete it there", key, s.owner(st.Origin, key))
}

// owner names a source and, if it is known, where it keeps the key.
func (s *Server) owner(source, key string) string {
	if place := s.Place(source, key); place != "" {
		return fmt.Sprintf("%s (source %s)", place, source)
	}
	return "source " + source
}

// txn is what the scheduler will hear when the changes are in the store.
func (s *Server) txn(ws []wish, deletes []string) scheduler.Txn {
	t := scheduler.Txn{Source: s.StoreSource, Note: "plan"}
	for _, w := range ws {
		if w.err != nil {
			t.Want = append(t.Want, scheduler.SetInvalid(scheduler.Key(w.key), w.err))
		} else {
			t.Want = append(t.Want, scheduler.Set(scheduler.Key(w.key), w.message))
		}
	}
	for _, k := range deletes {
		t.Want = append(t.Want, scheduler.Withdraw(scheduler.Key(k)))
	}
	return t
}
