package nodes

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/file"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

const (
	// intentField is the field of a NodeIntent that holds values.
	intentField = "spec.intent"
	// maxKeys bounds the keys of a NodeIntent.
	maxKeys = 512
	// maxText bounds the map of a NodeIntent in bytes; etcd allows 1.5 MiB for an object.
	maxText = 1 << 20
	// podPrefix begins the names of the keys of pods.
	podPrefix = "pod."
)

// Decoder decodes a value and applies the policy of the agent for values that others write.
type Decoder func(key string, data []byte) (proto.Message, error)

// valuesOf returns the values of a text of a NodeIntent. It returns an error, too, if the text or a key cannot be read. An
// error in one value makes only that value invalid.
func valuesOf(text string, decode Decoder) (intent.Values, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are allowed", intentField, len(text), maxText)
	}
	docs, err := file.DecodeMap([]byte(text), intentField)
	if err != nil {
		return nil, err
	}
	if len(docs) > maxKeys {
		return nil, fmt.Errorf("%s has %d keys; at most %d are allowed", intentField, len(docs), maxKeys)
	}
	values := intent.Values{}
	var wrong error // of the first key
	for _, d := range docs {
		kind, name, _ := strings.Cut(d.Key, "/")
		_, err := models.KindByName(kind)
		if strings.HasPrefix(name, podPrefix) {
			err = fmt.Errorf("names that begin with %q are reserved for pods; use another name", podPrefix)
		}
		if err != nil {
			wrong = cmp.Or[error](wrong, fmt.Errorf("%s: the key %q: %w", intentField, d.Key, err))
			continue
		}
		if _, twice := values[scheduler.Key(d.Key)]; twice {
			values[scheduler.Key(d.Key)] = intent.Wanted(nil, scheduler.Invalid("", "written more than once in %s; keep one", intentField))
			continue
		}
		values[scheduler.Key(d.Key)] = intent.Wanted(decode(d.Key, d.JSON))
	}
	return values, wrong
}

// wants holds the values of all NodeIntents of the node.
type wants struct {
	values intent.Values
	// keys are the keys of each NodeIntent whose values are submitted, by its name.
	keys map[string][]scheduler.Key
	// refused is why the first of the other keys of a NodeIntent is not submitted, by its name.
	refused map[string]string
}

// wantsOf returns the values that count. list is ordered by precedence: an older NodeIntent overrides a newer one.
func wantsOf(list []*rollout, valuesOf func(*rollout) (intent.Values, error)) wants {
	w := wants{values: intent.Values{}, keys: map[string][]scheduler.Key{}, refused: map[string]string{}}
	owners := map[scheduler.Key]string{}
	for _, r := range list {
		if r.counts() == nil {
			continue
		}
		values, err := valuesOf(r)
		if err != nil { // another version of the agent could read it; the readable keys stay
			w.refused[r.Name] = err.Error()
		}
		for _, k := range slices.Sorted(maps.Keys(values)) {
			if owner, taken := owners[k]; taken {
				if w.refused[r.Name] == "" {
					w.refused[r.Name] = fmt.Sprintf("%s: the older NodeIntent %s has this key too and overrides it; remove the key from one of the two", k, owner)
				}
				continue
			}
			owners[k] = r.Name
			w.values[k] = values[k]
			w.keys[r.Name] = append(w.keys[r.Name], k)
		}
	}
	return w
}
