package mirror

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/plumb-net/plumb/plugins/private"
)

// WriteCopy writes v to a file, for a start without the API server. The first line is the format, the second the SHA-256
// of the third, which is v in JSON.
func WriteCopy(file, format string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	return private.WriteFile(file, fmt.Appendf(nil, "%s\n%x\n%s\n", format, sum, data))
}

// ReadCopy reads a file that WriteCopy has written into v. Without the file it leaves v unchanged and returns nil. If it
// returns an error, v is not complete.
func ReadCopy(file, format string, v any) error {
	data, err := private.ReadState(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	lines := bytes.SplitN(data, []byte("\n"), 4)
	if len(lines) != 4 || string(lines[0]) != format {
		return fmt.Errorf("%s: is not of this format", file)
	}
	if sum := sha256.Sum256(lines[2]); hex.EncodeToString(sum[:]) != string(lines[1]) {
		return fmt.Errorf("%s: is damaged", file)
	}
	if err := json.Unmarshal(lines[2], v); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
