package ledger

import (
	"bytes"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Open reads the ledger in a state directory, which must exist and be ours
// alone for as long as the ledger is open. A warning tells of damage that was
// found: what could be read is there, but the list may lack objects of ours.
func Open(dir string) (l *Ledger, warning string, err error) {
	l, warning, err = open(&fileDisk{dir: dir})
	if err != nil {
		return nil, "", fmt.Errorf("open the ledger in %s: %w", dir, err)
	}
	return l, warning, nil
}

func open(d disk) (*Ledger, string, error) {
	text, err := d.read()
	if err != nil {
		return nil, "", err
	}
	l := newLedger(d)
	bad, err := l.load(text)
	if err != nil {
		return nil, "", err
	}
	warning := ""
	if len(bad) > 0 {
		name, err := d.aside(text)
		if err != nil {
			return nil, "", fmt.Errorf("keep a copy of the damaged file: %w", err)
		}
		warning = fmt.Sprintf("the ledger was damaged in %d lines (first: %s); the others were kept, the damaged file is %s", len(bad), bad[0], name)
	}
	if err := l.rewrite(); err != nil {
		d.close()
		return nil, "", err
	}
	return l, warning, nil
}

// load replays the log and returns what is wrong with which lines. Only the
// torn end of a write that never succeeded is passed over in silence: nobody
// was told that it is there.
func (l *Ledger) load(text []byte) (bad []string, err error) {
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		text = rest
		c, err := parseLine(line)
		switch {
		case err != nil && !whole:
			return bad, nil
		case err != nil:
			bad = append(bad, fmt.Sprintf("line %d: %v", n, err))
		case c.Version > version:
			return nil, fmt.Errorf("the file has format %d and this program knows %d; use the program that wrote it, or a newer one", c.Version, version)
		case !whole:
			return bad, nil // all but its newline; equally untold
		case c.Add != nil:
			l.entries[c.Add.ID] = c.Add
		case c.Remove != "":
			delete(l.entries, c.Remove)
		}
	}
	return bad, nil
}

// fileText is the whole ledger as a file.
func fileText(entries []kernel.Entry) ([]byte, error) {
	text, err := appendLine(nil, change{Version: version})
	for i := range entries {
		if err != nil {
			break
		}
		text, err = appendLine(text, change{Add: &entries[i]})
	}
	return text, err
}
