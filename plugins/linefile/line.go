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
	sum := crc32.Checksum(record, castagnoli)
	for shift := 28; shift >= 0; shift -= 4 {
		to = append(to, "0123456789abcdef"[sum>>shift&15])
	}
	to = append(to, ' ')
	return append(append(to, record...), '\n')
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
