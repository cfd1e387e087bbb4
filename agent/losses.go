package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/private"
)

// losses are what the state directory cannot tell any more of what earlier runs did: a
// ledger that is damaged or missing. As long as there are any the source "ledger" has not
// told the scheduler all that it knows, so that nothing is deleted only because nobody
// wants it: unknown is not empty. They are kept on disk, since the files are whole
// again once they are written anew, until an operator accepts them or nothing is left of
// what they are about.
type losses struct {
	path string

	mu   sync.Mutex
	list []loss
}

// loss is one file of which something was lost.
type loss struct {
	// File is its path in the state directory.
	File   string `json:"file"`
	Detail string `json:"detail"`
	// Aside is the copy of the damaged file.
	Aside string    `json:"aside,omitempty"`
	Since time.Time `json:"since"`
}

// lossesFile is their name in the state directory.
const lossesFile = "losses.json"

// openLosses reads what was lost before.
func openLosses(dir string) *losses {
	l := &losses{path: filepath.Join(dir, lossesFile)}
	text, err := private.ReadState(l.path)
	if err == nil {
		err = json.Unmarshal(text, &l.list)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.list = []loss{{File: lossesFile, Detail: "it cannot be read: " + err.Error(), Since: time.Now().UTC()}}
	}
	return l
}

// add notes a loss, on disk when it returns; what is noted of a file already stays.
func (l *losses) add(file, detail, aside string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, had := range l.list {
		if had.File == file && had.Aside == aside {
			return nil
		}
	}
	l.list = append(l.list, loss{File: file, Detail: detail, Aside: aside, Since: time.Now().UTC()})
	text, err := json.MarshalIndent(l.list, "", "  ")
	if err != nil {
		return err
	}
	return private.WriteFile(l.path, append(text, '\n'))
}

// settle forgets them: what is not known counts as not there from now on.
func (l *losses) settle() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := os.Remove(l.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.list = nil
	return nil
}

// since is when the last of them was found; zero if there are none.
func (l *losses) since() (last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range l.list {
		if x.Since.After(last) {
			last = x.Since
		}
	}
	return last
}

// String says what was lost, "" if nothing was.
func (l *losses) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var parts []string
	for _, x := range l.list {
		text := x.File + ": " + x.Detail
		if x.Aside != "" {
			text += fmt.Sprintf(" (a copy is %s)", x.Aside)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
