package ledger

import (
	"bytes"
	"encoding/json"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/plugins/linefile"
)

// version is that of the file's format; a reader refuses newer ones. Files of
// version 1 have no line that says where they end.
const version = 2

// change is what one line says; exactly one field is set.
type change struct {
	Version int           `json:"ledger,omitempty"`
	Add     *kernel.Entry `json:"add,omitempty"`
	Remove  string        `json:"remove,omitempty"`
	// End is the last line: how many bytes stand before it.
	End int `json:"end,omitempty"`
}

// says reports whether the line says something that this release knows.
func (c change) says() bool { return c.Version != 0 || c.Add != nil || c.Remove != "" || c.End != 0 }

// endLine is the last line of a file with so many bytes before it.
func endLine(before int) []byte {
	line, _ := appendLine(nil, change{End: before}) // of a number: it never fails
	return line
}

// appendLine adds a change to the text.
func appendLine(to []byte, c change) ([]byte, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body) // ends with a newline
	enc.SetEscapeHTML(false)      // raw values come back as they went
	if err := enc.Encode(c); err != nil {
		return to, err
	}
	return linefile.AppendLine(to, bytes.TrimSuffix(body.Bytes(), []byte("\n"))), nil
}

// parseLine reads a line without its newline.
func parseLine(line []byte) (change, error) {
	text, err := linefile.ParseLine(line)
	if err != nil {
		return change{}, err
	}
	var c change
	if err := json.Unmarshal(text, &c); err != nil {
		return change{}, err
	}
	return c, nil
}
