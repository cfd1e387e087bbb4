package etcd

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// Decoder reads a value; its errors about the value are *models.InvalidError.
// models.Decode is one. It is called from several goroutines.
type Decoder func(key string, data []byte) (proto.Message, error)

// change says what a stored value wants. Nothing that anybody writes into the
// store makes more than its own key invalid.
func (d Decoder) change(name string, data []byte) scheduler.Change {
	key := safeKey(name)
	if len(data) > models.MaxValue {
		return scheduler.SetInvalid(key, scheduler.Invalid("",
			"the value has %d bytes; at most %d (256 KiB) are allowed", len(data), models.MaxValue))
	}
	if string(key) != name {
		return scheduler.SetInvalid(key, scheduler.Invalid("", "%q is no key; a key is <kind>/<name>", name))
	}
	v, err := d(name, data)
	if err != nil {
		return scheduler.SetInvalid(key, intent.Invalid(err))
	}
	return scheduler.Set(key, v)
}

// safeKey is the key under which a stored name is spoken of. It is the name
// itself unless that would be mistaken for a prefix or cannot be printed.
func safeKey(name string) scheduler.Key {
	unsafe := func(i int, c byte) bool { return c < ' ' || c == 0x7f || c == '/' && i == len(name)-1 }
	escape := name == "" || !utf8.ValidString(name)
	for i := 0; i < len(name) && !escape; i++ {
		escape = unsafe(i, name[i])
	}
	if !escape {
		return scheduler.Key(name)
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		if c := name[i]; unsafe(i, c) || c >= 0x80 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	if name == "" {
		b.WriteString("%")
	}
	return scheduler.Key(b.String())
}

// decodeAll decodes values on all processors, in order. The list of a large
// store is bound by this.
func (d Decoder) decodeAll(prefix string, kvs []*mvccpb.KeyValue) []scheduler.Change {
	out := make([]scheduler.Change, len(kvs))
	one := func(i int) { out[i] = d.change(string(kvs[i].Key[len(prefix):]), kvs[i].Value) }
	const chunk = 256
	if len(kvs) <= chunk {
		for i := range kvs {
			one(i)
		}
		return out
	}
	starts := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for start := range starts {
				for i := start; i < min(start+chunk, len(kvs)); i++ {
					one(i)
				}
			}
		})
	}
	for start := 0; start < len(kvs); start += chunk {
		starts <- start
	}
	close(starts)
	wg.Wait()
	return out
}

// revision is what one revision of the store changed.
type revision struct {
	rev    int64
	events []*mvccpb.Event // of intent
	author *models.Author  // nil: it did not come through the agent
}

// revisions splits the events of a response, which come in the order of
// revisions: one revision is one transaction, always. prefix is that of intent.
func revisions(prefix string, events []*mvccpb.Event) []revision {
	var out []revision
	for _, e := range events {
		if n := len(out); n == 0 || out[n-1].rev != e.Kv.ModRevision {
			out = append(out, revision{rev: e.Kv.ModRevision})
		}
		r := &out[len(out)-1]
		if strings.HasPrefix(string(e.Kv.Key), prefix) {
			r.events = append(r.events, e)
		} else if a, ok := models.ReadAuthor(e.Kv.Value); ok {
			r.author = &a
		}
	}
	return out
}

// txn makes the transaction of a revision.
func (d Decoder) txn(prefix string, r revision) scheduler.Txn {
	want := make([]scheduler.Change, len(r.events))
	verb := "put"
	for i, e := range r.events {
		name := string(e.Kv.Key[len(prefix):])
		if e.Type == mvccpb.Event_DELETE {
			want[i], verb = scheduler.Withdraw(safeKey(name)), "delete"
			continue
		}
		want[i] = d.change(name, e.Kv.Value)
	}
	slices.SortFunc(want, func(a, b scheduler.Change) int { return strings.Compare(string(a.Key), string(b.Key)) })
	note := fmt.Sprintf("%d keys at revision %d", len(want), r.rev)
	if len(want) == 1 {
		note = verb + " " + string(want[0].Key)
	}
	if r.author != nil {
		note += " " + r.author.String()
	} else {
		note += ", not through the agent"
	}
	t := scheduler.Txn{Source: Source, Note: note, Want: want, AsPreviewed: true}
	if r.author != nil {
		t.Written = r.author.Time
	}
	return t
}
