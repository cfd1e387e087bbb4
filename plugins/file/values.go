package file

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// doc is one document of a file, decoded.
type doc struct {
	key  scheduler.Key
	at   string // file:line
	want wanted
}

// wanted is what the files say of one key: a value, or why there is none.
type wanted struct {
	value any
	err   error
	// text is equal when nothing changed.
	text string
}

func (w wanted) change(k scheduler.Key) scheduler.Change {
	if w.err != nil {
		return scheduler.SetInvalid(k, w.err)
	}
	return scheduler.Set(k, w.value)
}

func refused(err error) wanted { return wanted{err: err, text: "invalid: " + err.Error()} }

// parseFile reads and decodes a file. A value that is wrong spoils its key
// only, a file that is no intent all of it.
func parseFile(dir, name string, data []byte) ([]doc, error) {
	documents, err := DecodeDocuments(data, filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	docs := make([]doc, len(documents))
	for i, d := range documents {
		docs[i] = doc{
			key:  scheduler.Key(d.Key),
			at:   fmt.Sprintf("%s:%d", filepath.Join(dir, name), d.Line),
			want: decodeValue(d),
		}
	}
	return docs, nil
}

func decodeValue(d Document) wanted {
	msg, err := models.Decode(d.Key, d.JSON)
	if err != nil {
		return refused(invalid(err))
	}
	return wanted{value: msg, text: string(models.Encode(msg))}
}

// invalid says a refusal of the models in the words of the scheduler.
func invalid(err error) error {
	var bad *models.InvalidError
	if !errors.As(err, &bad) {
		return err
	}
	fields := make([]scheduler.FieldError, len(bad.Fields))
	for i, f := range bad.Fields {
		fields[i] = scheduler.FieldError{Field: f.Field, Error: f.Error}
	}
	return &scheduler.InvalidError{Fields: fields}
}

// values is what all files together want. A key that is written twice is
// invalid: which of the two was meant, only people know.
func values(files map[string]*file) map[scheduler.Key]wanted {
	all := map[scheduler.Key]wanted{}
	written := map[scheduler.Key][]string{}
	for _, name := range sorted(maps.Keys(files)) {
		for _, d := range files[name].docs {
			all[d.key] = d.want
			written[d.key] = append(written[d.key], d.at)
		}
	}
	for k, at := range written {
		if len(at) > 1 {
			all[k] = refused(scheduler.Invalid("", "written more than once, at %s; keep one", strings.Join(at, " and ")))
		}
	}
	return all
}

// places are where the keys are written.
func places(files map[string]*file) map[scheduler.Key]string {
	all := map[scheduler.Key]string{}
	for _, f := range files {
		for _, d := range f.docs {
			all[d.key] = d.at
		}
	}
	return all
}

// difference lists what must be said to get from one to the other, by key.
func difference(from, to map[scheduler.Key]wanted) []scheduler.Change {
	var changes []scheduler.Change
	for k, w := range to {
		if was, ok := from[k]; !ok || was.text != w.text {
			changes = append(changes, w.change(k))
		}
	}
	for k := range from {
		if _, ok := to[k]; !ok {
			changes = append(changes, scheduler.Withdraw(k))
		}
	}
	slices.SortFunc(changes, func(a, b scheduler.Change) int {
		return strings.Compare(string(a.Key), string(b.Key))
	})
	return changes
}

func sorted(keys iter.Seq[string]) []string { return slices.Sorted(keys) }
