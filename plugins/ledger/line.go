package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"strconv"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// version is that of the file's format; a reader refuses newer ones.
const version = 1

// change is what one line says; exactly one field is set.
type change struct {
	Version int           `json:"ledger,omitempty"`
	Add     *kernel.Entry `json:"add,omitempty"`
	Remove  string        `json:"remove,omitempty"`
}

// castagnoli is the polynomial that processors compute by themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendLine adds a change to the text.
func appendLine(to []byte, c change) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body) // ends with a newline
	enc.SetEscapeHTML(false)      // raw values come back as they went
	if err := enc.Encode(c); err != nil {
		return to, err
	}
	text := body.Bytes()
	to = fmt.Appendf(to, "%08x ", crc32.Checksum(text[:len(text)-1], castagnoli))
	return append(to, text...), nil
}

// parseLine reads a line without its newline.
func parseLine(line []byte) (change, error) {
	sum, text, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(sum) != 8 {
		return change{}, fmt.Errorf("no checksum")
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil {
		return change{}, fmt.Errorf("no checksum")
	}
	if got := crc32.Checksum(text, castagnoli); got != uint32(want) {
		return change{}, fmt.Errorf("checksum is %08x, the line says %08x", got, want)
	}
	var c change
	if err := json.Unmarshal(text, &c); err != nil {
		return change{}, err
	}
	return c, nil
}
