package ledger

import (
	"bytes"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// Found says what was found of a ledger when it was opened.
type Found struct {
	// Missing: there was no file. It is for the caller to know whether there should
	// have been one.
	Missing bool
	// Damage says what is wrong with the file, "" if it is whole. What could be read
	// is there, but the list may lack objects of ours, or name some that are gone.
	Damage string
	// Aside is the copy of the damaged file.
	Aside string
	// Stale: the file is whole, but not the one that was written last in this boot. The list
	// may lack objects of ours, name some that are gone, and be wrong about others.
	Stale bool
}

// Open reads the ledger in a state directory, which must exist and be ours
// alone for as long as the ledger is open. damaged, if not nil, is called before
// a file that is not whole is written anew, and before a stale one is continued, so that it can
// be remembered. The zero Witness finds nothing stale.
//
// A disk that cannot be written is no error: nothing can be added then, see
// [Ledger.Broken].
func Open(dir string, w Witness, damaged func(Found) error) (*Ledger, Found, error) {
	l, found, err := open(&fileDisk{dir: dir}, w, damaged)
	if err != nil {
		return nil, found, fmt.Errorf("open the ledger in %s: %w", dir, err)
	}
	return l, found, nil
}

func open(d disk, w Witness, damaged func(Found) error) (*Ledger, Found, error) {
	text, there, err := d.read()
	if err != nil {
		return nil, Found{}, err
	}
	watched := &witnessed{disk: d, w: w}
	l := newLedger(watched)
	found := Found{Missing: !there}
	last, whole := 0, false
	if there {
		var bad []string
		if last, whole, bad, err = l.load(text); err != nil {
			return nil, found, err
		}
		if len(bad) > 0 {
			found.Damage = fmt.Sprintf("%d lines cannot be read (first: %s); the others are kept", len(bad), bad[0])
		}
	}
	if found.Damage != "" {
		if found.Aside, err = d.aside(text); err == nil && damaged != nil {
			err = damaged(found)
		}
		if err != nil {
			return nil, found, fmt.Errorf("keep a copy of the damaged file: %w", err)
		}
	}
	stale := watched.begin(text[:last])
	if found.Stale = stale && there && found.Damage == ""; found.Stale && damaged != nil {
		if err := damaged(found); err != nil {
			return nil, found, err
		}
	}
	if whole && !l.wasteful() && d.resume(last) == nil {
		return l, found, nil
	}
	l.broken = l.rewrite()
	return l, found, nil
}

// load replays the log and returns what is wrong with it, by line. last is where its last line
// begins. whole reports whether the file can be continued as it is: nothing is wrong with it,
// nothing stands behind its last line, and it is of the newest format.
func (l *Ledger) load(text []byte) (last int, whole bool, bad []string, err error) {
	wrong := func(n int, format string, args ...any) {
		bad = append(bad, fmt.Sprintf("line %d: %s", n, fmt.Sprintf(format, args...)))
	}
	format, ended, n, at := 0, false, 0, 0
	for at < len(text) && !ended { // behind the last line is a write that was cut short
		n++
		line, _, complete := bytes.Cut(text[at:], []byte("\n"))
		c, err := parseLine(line)
		switch {
		case !complete:
			wrong(n, "it is cut short")
		case err != nil:
			wrong(n, "%v", err)
		case c.Version > version:
			return 0, false, nil, fmt.Errorf("the file has format %d and this program knows %d; use the program that wrote it, or a newer one", c.Version, version)
		case !c.says():
			wrong(n, "it says nothing that this program knows")
		case c.End != 0 && c.End != at:
			wrong(n, "it is the last of a file of %d bytes, after %d", c.End, at)
		case (n == 1) != (c.Version != 0):
			wrong(n, "the first line, and no other, names the format")
		}
		if err == nil && complete {
			l.replay(c)
			format, ended, last = max(format, c.Version), c.End == at && at > 0, at
		}
		at += len(line) + 1
	}
	if !ended && (format != 1 || len(text) == 0) {
		wrong(n+1, "the last line is missing: the file was cut")
	}
	if !ended {
		last = len(text)
	}
	l.lines = n - 1 // but for the last
	return last, ended && format == version && at >= len(text) && len(bad) == 0, bad, nil
}

func (l *Ledger) replay(c change) {
	if c.Add != nil {
		l.entries[c.Add.ID] = c.Add
	}
	if c.Remove != "" {
		delete(l.entries, c.Remove)
	}
}

// fileText is the whole ledger as a file, but for its last line.
func fileText(entries []kernel.Entry) []byte {
	text := appendLine(nil, change{Version: version})
	for i := range entries {
		text = appendLine(text, change{Add: &entries[i]})
	}
	return text
}
