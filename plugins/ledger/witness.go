package ledger

import (
	"encoding/binary"
	"hash/crc64"
	"os"
	"path/filepath"
	"strings"
)

// Witness is a small file that identifies, within one boot, the ledger that was written last. It
// holds a digest of the ledger's content before and after the newest write. It is kept apart from
// the ledger, in a directory that is not part of a backup. A ledger that matches neither digest was
// replaced, for example when an older copy of the state directory was restored, and may contradict
// the kernel.
type Witness struct {
	// Path is the path of the file. Its directory must exist.
	Path string
	// Boot is the id of the boot in which digests are comparable. After a power failure a ledger
	// may lack removals, but no kernel object remains that it could contradict.
	Boot string
}

// digest identifies the content of a ledger up to its last line.
type digest struct {
	size int
	sum  uint64
}

func (d digest) add(lines []byte) digest {
	return digest{d.size + len(lines), crc64.Update(d.sum, ecma, lines)}
}

var ecma = crc64.MakeTable(crc64.ECMA)

// witnessed is a disk that records its writes in a witness. It writes the digests first, so the
// content that a killed process leaves matches one of them.
type witnessed struct {
	disk
	w    Witness
	file *os.File // nil if the witness cannot be written
	now  digest
}

// begin compares the content of a ledger with the witness, and opens the witness for updates.
// stale reports that the ledger is not the one that was written last.
func (d *witnessed) begin(content []byte) (stale bool) {
	d.now = digest{}.add(content)
	before, after, there := d.noted()
	stale = there && d.now != before && d.now != after
	file, err := os.OpenFile(d.w.Path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return stale
	}
	d.file = file
	d.note(d.now)
	return stale
}

// noted returns the digests of the witness. there is false for a witness of another boot.
func (d *witnessed) noted() (before, after digest, there bool) {
	text, err := os.ReadFile(d.w.Path)
	if err != nil || len(text) < witnessSize || string(text[witnessSize:]) != d.w.Boot {
		return before, after, false
	}
	word := func(i int) uint64 { return binary.BigEndian.Uint64(text[8*i:]) }
	return digest{int(word(0)), word(1)}, digest{int(word(2)), word(3)}, true
}

const witnessSize = 4 * 8

// note records that the content is about to become next.
func (d *witnessed) note(next digest) {
	if d.file == nil {
		return
	}
	text := make([]byte, 0, witnessSize+len(d.w.Boot))
	for _, x := range []digest{d.now, next} {
		text = binary.BigEndian.AppendUint64(text, uint64(x.size))
		text = binary.BigEndian.AppendUint64(text, x.sum)
	}
	if _, err := d.file.WriteAt(append(text, d.w.Boot...), 0); err != nil {
		d.drop()
	}
}

// drop removes the witness: outdated digests would not match a correct ledger.
func (d *witnessed) drop() {
	d.file.Close()
	d.file = nil
	_ = os.Remove(d.w.Path)
}

func (d *witnessed) write(lines []byte) error {
	next := d.now.add(lines)
	d.note(next)
	err := d.disk.write(lines)
	if err == nil {
		d.now = next
	}
	return err
}

func (d *witnessed) replace(lines []byte) error {
	next := digest{}.add(lines)
	d.note(next)
	err := d.disk.replace(lines)
	if err == nil {
		d.now = next
	} else if d.file != nil {
		d.drop() // the old or the new file may be in place
	}
	return err
}

func (d *witnessed) close() error {
	if d.file != nil {
		d.file.Close()
	}
	return d.disk.close()
}

// WitnessOf returns the witness, below dir, of a ledger in the state directory.
func WitnessOf(dir, ledger, boot string) Witness {
	return Witness{Path: filepath.Join(dir, strings.ReplaceAll(ledger, "/", "-")+".witness"), Boot: boot}
}
