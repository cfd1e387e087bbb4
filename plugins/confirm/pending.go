package confirm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/private"
)

// FileName is the name of the record in the state directory.
const FileName = "confirm.json"

// Pending is a change that has to be confirmed.
type Pending struct {
	// Name tells it from others: "apply-124005-3f".
	Name string `json:"name"`
	// By is who made it, Message what he said about it.
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
	// Began is when it was made, Deadline until when it has to be confirmed.
	Began    time.Time `json:"began"`
	Deadline time.Time `json:"deadline"`
	// Probes are tried every second; see [Options].
	Probes []string `json:"probes,omitempty"`
	// Changes are what it writes into the store.
	Changes []Change `json:"changes"`
	// Reverting is why it is being taken back; empty while it can be confirmed.
	Reverting string `json:"reverting,omitempty"`
}

// Change is a key of the store before and after; nil stands for no value.
type Change struct {
	Key    string `json:"key"`
	Before []byte `json:"before"`
	After  []byte `json:"after"`
}

// Keys are the keys of intent that it changes, as operators write them.
func (p Pending) Keys() []string {
	var out []string
	for _, c := range p.Changes {
		if name, intent := bytes.CutPrefix([]byte(c.Key), []byte("config/")); intent {
			out = append(out, string(name))
		}
	}
	return out
}

// brought are the keys of intent that were not there before it.
func (p Pending) brought() (out []string) {
	for _, c := range p.Changes {
		if name, intent := strings.CutPrefix(c.Key, "config/"); intent && c.Before == nil {
			out = append(out, name)
		}
	}
	return out
}

// overrides have the values before count while the store cannot be written.
func (p Pending) overrides() []models.Override {
	out := make([]models.Override, len(p.Changes))
	for i, c := range p.Changes {
		out[i] = models.Override{Key: c.Key, Stored: c.After, Value: c.Before}
	}
	return out
}

// record is the file that holds a change over a crash.
type record string

func recordIn(dir string) record { return record(filepath.Join(dir, FileName)) }

// read returns nil if there is none.
func (r record) read() (*Pending, error) {
	text, err := private.ReadState(string(r))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	p := new(Pending)
	if err == nil {
		err = json.Unmarshal(text, p)
	}
	if err == nil && (p.Name == "" || p.Deadline.IsZero() || len(p.Changes) == 0) {
		err = errors.New("it is not whole")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", string(r), err)
	}
	return p, nil
}

// aside puts a file that cannot be read out of the way.
func (r record) aside() (string, error) {
	to := string(r) + ".damaged"
	return to, os.Rename(string(r), to)
}

func (r record) write(p Pending) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return private.WriteFile(string(r), append(text, '\n'))
}

func (r record) remove() error {
	if err := os.Remove(string(r)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return private.SyncDir(filepath.Dir(string(r)))
}
