package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/ledger"
	"github.com/plumb-net/plumb/plugins/linefile"
	"github.com/plumb-net/plumb/plugins/private"
)

// labelFile is the file of the state directory that holds the label of its agent.
const labelFile = "label"

// maxLabel is the maximum size of that file, in bytes.
const maxLabel = 1 << 10

// keepLabel refuses a state directory of another label: its ledger, objects and intent carry that
// label, and this agent would treat them as foreign. A renamed host has another default label. A
// damaged file is written again with the label of this agent: the file is only a precaution, and
// its loss must not leave containers without an agent.
func keepLabel(c Config, log *slog.Logger) error {
	path := filepath.Join(c.StateDir, labelFile)
	keep := func() error { return private.WriteFile(path, linefile.AppendLine(nil, []byte(c.Label))) }
	text, err := private.ReadFile(path, maxLabel)
	if errors.Is(err, fs.ErrNotExist) {
		return keep()
	}
	if err != nil && !errors.Is(err, private.ErrTooLong) {
		return fmt.Errorf("label of the state directory: %w", err)
	}
	label, err := linefile.ParseLine(bytes.TrimSuffix(text, []byte("\n")))
	if err != nil {
		log.Warn("label of the state directory is damaged and written again", "file", path, "label", c.Label, "error", err)
		return keep()
	}
	if string(label) != c.Label {
		return fmt.Errorf(`the state directory %s is of the label %q, and this agent has the label %q, which is the name of the host unless it is set. Start it with --label %s, `+
			`or with another --state-dir. To change the label, first run "plumb-agent cleanup --label %s", which removes what was made and forgets the label; intent stays in etcd below /plumb/%s/`,
			c.StateDir, label, c.Label, label, label, label)
	}
	return nil
}

// forgetLabel removes the label of a state directory after a cleanup.
func forgetLabel(c Config) error {
	err := os.Remove(filepath.Join(c.StateDir, labelFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// surroundings records which files of the running agent were removed by other processes.
type surroundings struct {
	log *slog.Logger
	mu  sync.Mutex // guards the fields below
	// restored holds the time when a file was last created again, and missing the reason why a
	// file was not.
	restored map[string]time.Time
	missing  map[string]error
	// seen holds the names that find was called with.
	seen map[string]bool
}

func newSurroundings(log *slog.Logger) *surroundings {
	return &surroundings{log: log, restored: map[string]time.Time{}, missing: map[string]error{}, seen: map[string]bool{}}
}

// of returns a function that records that a file was removed and created again, or why that failed.
func (s *surroundings) of(name string) func(error) {
	return func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			if before := s.missing[name]; before == nil || before.Error() != err.Error() {
				s.log.Error("file of the agent removed, not created again", "file", name, "error", err)
			}
			s.missing[name] = err
			return
		}
		delete(s.missing, name)
		s.restored[name] = time.Now()
		s.log.Warn("file of the agent removed, created again", "file", name)
	}
}

// checkEvery is the interval of checks for the files of the state directory. The socket servers
// check their own files.
const checkEvery = 2 * time.Second

// keepFiles checks for removed files of the state directory, and creates them again from memory. It
// returns an error if another agent has taken a lock meanwhile.
func (a *agent) keepFiles(ctx context.Context) error {
	kept := map[string][]byte{}
	tick := time.NewTicker(checkEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := a.checkFiles(kept); err != nil {
			return err
		}
	}
}

// readKept reads the small files of the state directory that are written only once, unless kept has
// them already. The store writes its file after its start.
func (a *agent) readKept(kept map[string][]byte) {
	for _, name := range []string{labelFile, "uuid"} {
		if kept[name] != nil {
			continue
		}
		if text, err := private.ReadFile(filepath.Join(a.config.StateDir, name), maxLabel); err == nil {
			kept[name] = text
		}
	}
}

func (a *agent) checkFiles(kept map[string][]byte) error {
	for _, l := range a.host.locks.held {
		again, err := l.Ensure()
		var held *private.Held
		switch {
		case errors.As(err, &held):
			return fmt.Errorf("the lock of the agent was removed while it ran, and another agent has it now: %w", err)
		case again || err != nil:
			a.surroundings.of(l.Path())(err)
		}
	}
	a.readKept(kept)
	for name, text := range kept {
		if path := filepath.Join(a.config.StateDir, name); isGone(path) {
			a.surroundings.of(name)(private.WriteFile(path, text))
		}
	}
	for name, l := range map[string]*ledger.Ledger{ledgerFile: a.host.ledger, givenFile: a.host.given, attachedFile: a.host.attached} {
		if gone := isGone(filepath.Join(a.config.StateDir, name)); gone {
			a.surroundings.of(name)(l.Ensure())
		}
	}
	if a.config.Etcd == nil {
		switch gone := isGone(filepath.Join(a.config.StateDir, "etcd")); {
		case gone:
			a.surroundings.lose("etcd", errors.New(`the data of the embedded etcd was removed, and is lost when the agent ends; keep it with "agentctl kv list" before that`))
		default:
			a.surroundings.find("etcd")
		}
	}
	return nil
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// lose records that a file that existed before cannot be created again, and logs that once.
func (s *surroundings) lose(name string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.seen[name] {
		return
	}
	if s.missing[name] == nil {
		s.log.Error("file of the agent removed, not created again", "file", name, "error", err)
	}
	s.missing[name] = err
}

// find records that a file exists.
func (s *surroundings) find(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.missing, name)
	s.seen[name] = true
}

// health returns an entry only if a file was removed.
func (s *surroundings) health(started time.Time) []models.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.missing)+len(s.restored) == 0 {
		return nil
	}
	h := models.Health{Name: "directories", State: "ok", Since: started}
	var missing, restored []string
	for _, name := range slices.Sorted(maps.Keys(s.missing)) {
		missing = append(missing, fmt.Sprintf("%s was removed and cannot be created again: %v", name, s.missing[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.restored)) {
		restored = append(restored, fmt.Sprintf("%s was removed by another process and created again at %s", name, s.restored[name].UTC().Format(time.RFC3339)))
	}
	if len(missing) > 0 {
		h.State = "degraded"
	}
	h.Reason = strings.Join(append(missing, restored...), "; ")
	return []models.Health{h}
}
