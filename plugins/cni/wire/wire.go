package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// Version is the protocol of this build, Oldest the oldest that it still speaks.
const (
	Version = 1
	Oldest  = 1
)

// maxLine bounds a line: a configuration with its results, twice escaped at worst.
const maxLine = 4 * spec.MaxConfig

// Hello is what the agent says first.
type Hello struct {
	// Plumb names the protocol: "cni".
	Plumb  string `json:"plumb"`
	Oldest int    `json:"oldest"`
	Newest int    `json:"newest"`
}

// Request is one call.
type Request struct {
	Protocol int `json:"protocol"`
	spec.Args
	// Inode is the network namespace behind the path at the time of the call, 0
	// if there was none.
	Inode uint64 `json:"inode,omitempty"`
	// Config is the configuration as it came.
	Config json.RawMessage `json:"config"`
	// IPAM is what the plugin has given that the configuration names for addresses.
	IPAM *spec.Result `json:"ipam,omitempty"`
	// Timeout is for how many milliseconds the plugin waits for the answer.
	Timeout int64 `json:"timeout_ms,omitempty"`
	// Trace are variables of the environment that follow a call through a system.
	Trace map[string]string `json:"trace,omitempty"`
	// Queued is when a call was left for the agent while it was down, in unix
	// seconds; 0 for one that is made.
	Queued int64 `json:"queued,omitempty"`
	// Tries is how often the agent has tried it since.
	Tries int `json:"tries,omitempty"`
}

// Answer is what came of it. Without an error it was done; Result is that of an ADD.
type Answer struct {
	Result *spec.Result `json:"result,omitempty"`
	Error  *spec.Error  `json:"error,omitempty"`
	// Warnings are for the log of the runtime.
	Warnings []string `json:"warnings,omitempty"`
}

// ErrNoCommon: the two sides have no version of the protocol in common.
var ErrNoCommon = errors.New("plumb-cni and plumb-agent are too many releases apart")

// Agree picks the newest version that both sides speak.
func Agree(h Hello) (int, error) {
	v := min(h.Newest, Version)
	switch {
	case h.Plumb != "cni":
		return 0, errors.New("who answers is not plumb-agent")
	case v < h.Oldest || v < Oldest:
		return 0, fmt.Errorf("%w: this side speaks %d to %d, the other %d to %d", ErrNoCommon, Oldest, Version, h.Oldest, h.Newest)
	}
	return v, nil
}

// Write sends one line.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Reader reads lines.
type Reader struct{ lines *bufio.Reader }

// NewReader reads from r.
func NewReader(r io.Reader) *Reader { return &Reader{bufio.NewReader(r)} }

// Read takes one line into v.
func (r *Reader) Read(v any) error {
	var line []byte
	for {
		part, err := r.lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return fmt.Errorf("the line is longer than %d bytes", maxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == io.EOF && len(line) > 0:
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		return json.Unmarshal(bytes.TrimSpace(line), v)
	}
}
