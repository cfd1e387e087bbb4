package linefile

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"strconv"
)

// castagnoli is the polynomial that processors compute by themselves.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendLine adds a record to a text, with its checksum and a newline.
func AppendLine(to, record []byte) []byte {
	return AppendLineOf(to, func(text []byte) []byte { return append(text, record...) })
}

// AppendLineOf does so with a record that is added to the text by a function.
func AppendLineOf(to []byte, add func(text []byte) []byte) []byte {
	start := len(to)
	to = add(append(to, "00000000 "...))
	sum := crc32.Checksum(to[start+9:], castagnoli)
	for i := range 8 {
		to[start+i] = "0123456789abcdef"[sum>>(28-4*i)&15]
	}
	return append(to, '\n')
}

// lineLen is how long the line of a record is.
func lineLen(record []byte) int { return 8 + 1 + len(record) + 1 }

// ParseLine reads a line without its newline.
func ParseLine(line []byte) (record []byte, err error) {
	sum, record, ok := bytes.Cut(line, []byte(" "))
	if !ok || len(sum) != 8 || bytes.ContainsAny(sum, "ABCDEF") {
		return nil, fmt.Errorf("no checksum")
	}
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil {
		return nil, fmt.Errorf("no checksum")
	}
	got := crc32.Checksum(record, castagnoli)
	// Lines of former versions bear the other checksum.
	if got != uint32(want) && crc32.ChecksumIEEE(record) != uint32(want) {
		return nil, fmt.Errorf("checksum is %08x, the line says %08x", got, want)
	}
	return record, nil
}
