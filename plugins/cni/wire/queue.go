package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/plugins/private"
)

// queueDir is where calls wait for the agent, in the directory of its socket.
const queueDir = "cni-queue"

// maxLeft bounds the queue. A runtime tries a DEL again that cannot be left.
const maxLeft = 10000

// Left is a call that was left for the agent.
type Left struct {
	Request
	// File holds it until it is done.
	File string
	// Err is why it cannot be read.
	Err error
}

// Done takes it out of the queue.
func (l Left) Done() { _ = os.Remove(l.File) } // or it is done again, which does no harm

// Again leaves it in the queue as one that was tried once more.
func (l Left) Again() error {
	l.Tries++
	text, err := json.Marshal(l.Request)
	if err != nil {
		return err
	}
	return private.WriteFile(l.File, append(text, '\n'))
}

// Aside takes it out of the queue and keeps it for people to look at.
func (l Left) Aside() { _ = os.Rename(l.File, l.File+".bad") }

// Leave writes a DEL that the agent must complete later. run is the directory of
// its socket. The same DEL again takes the place of the first, if it knows no less;
// a crash leaves all of it or nothing.
func Leave(run string, r Request) error {
	dir := QueueDir(run)
	if err := private.Make(dir); err != nil {
		return err
	}
	var config struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(r.Config, &config); err != nil {
		return err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	name := fileOf(run, config.Name, r.ContainerID, r.IfName)
	before := readLeft(name)
	if before.Err == nil && before.Netns != "" && r.Netns == "" {
		return nil
	}
	if errors.Is(before.Err, fs.ErrNotExist) {
		files, err := os.ReadDir(dir)
		if err == nil && len(files) >= maxLeft {
			err = fmt.Errorf("%d calls are left in %s already", len(files), dir)
		}
		if err != nil {
			return err
		}
	}
	return private.WriteFile(name, append(text, '\n'))
}

// fileOf is where the DEL of an attachment is left.
func fileOf(run, network, container, ifname string) string {
	sum := sha256.Sum256([]byte(network + "/" + container + "/" + ifname))
	return filepath.Join(QueueDir(run), hex.EncodeToString(sum[:12])+".json")
}

// QueueDir is the queue of who has its socket in the directory run.
func QueueDir(run string) string { return filepath.Join(run, queueDir) }

// LeftOf is the DEL of one attachment; false if there is none that can be read.
func LeftOf(run, network, container, ifname string) (Left, bool) {
	l := readLeft(fileOf(run, network, container, ifname))
	return l, l.Err == nil
}

// Queue lists what was left, the oldest first, and what cannot be read.
func Queue(run string) (left, bad []Left, err error) {
	dir := QueueDir(run)
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err := private.Make(dir); err != nil { // what somebody else may write there is no call
		return nil, nil, err
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		if l := readLeft(filepath.Join(dir, f.Name())); l.Err != nil {
			bad = append(bad, l)
		} else {
			left = append(left, l)
		}
	}
	slices.SortStableFunc(left, func(a, b Left) int { return cmp.Compare(a.Queued, b.Queued) })
	return left, bad, nil
}

func readLeft(name string) Left {
	l := Left{File: name}
	text, err := private.ReadFile(name, maxLine)
	if err == nil {
		err = json.Unmarshal(text, &l.Request)
	}
	if err == nil && l.Command != "DEL" {
		err = fmt.Errorf("%q is nothing to be left", l.Command)
	}
	l.Err = err
	return l
}
