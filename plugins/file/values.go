package file

import (
	"fmt"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// doc is one document of a file, decoded.
type doc struct {
	key  scheduler.Key
	at   string // file:line
	want intent.Value
}

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
			want: intent.Wanted(models.Decode(d.Key, d.JSON)),
		}
	}
	return docs, nil
}

// values is what all files together want. A key that is written twice is
// invalid: which of the two was meant, only people know.
func values(files map[string]*file) intent.Values {
	all := intent.Values{}
	written := map[scheduler.Key][]string{}
	for _, name := range sorted(maps.Keys(files)) {
		for _, d := range files[name].docs {
			all[d.key] = d.want
			written[d.key] = append(written[d.key], d.at)
		}
	}
	for k, at := range written {
		if len(at) > 1 {
			all[k] = intent.Wanted(nil, scheduler.Invalid("", "written more than once, at %s; keep one", strings.Join(at, " and ")))
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

func sorted(keys iter.Seq[string]) []string { return slices.Sorted(keys) }
