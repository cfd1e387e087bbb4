package plan

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler/internal/assess"
	"github.com/plumb-net/plumb/scheduler/internal/graph"
	"github.com/plumb-net/plumb/scheduler/internal/kind"
	"github.com/plumb-net/plumb/scheduler/kv"
)

// Base says what a plan was made on: the keys that the planner read, how they
// stood, and the steps that it took from there. A transaction with a base is
// executed only if all of that is still so. The zero Base is none.
//
// A Base holds for this process; [Base.Save] makes one that outlives it.
type Base struct {
	steps uint64 // digests the steps
	reads []read // sorted by key
}

// SavedBase is a Base that outlives the process.
type SavedBase struct {
	// Sum digests the steps and what was read. Where some of that is secret a salt follows,
	// which is in all digests, so that nobody finds the secrets by trying.
	Sum   string
	Reads []Read
}

// Read is a key that a planner read, with a digest of how it stood.
type Read struct {
	Key    kv.Key
	Digest string
}

// read is how a key stood. A key that there is no node for stands like one that
// nobody ever asked for.
type read struct {
	key             kv.Key
	kind            *kind.Kind
	desired, actual any
	stamp           uint64
	gen             uint32
	presence        graph.Presence
	same, foreign   bool
	digest, salt    string // of a saved base, instead of all above but the key
}

func readOf(n *graph.Node) read {
	return read{key: n.Key, kind: kind.Of(n).Original(), desired: n.Desired, actual: n.Actual, stamp: n.Stamp, gen: n.Gen,
		presence: n.Presence, same: assess.Has(n, assess.FlagSame), foreign: n.Foreign}
}

// blank reports whether nobody asks for the key and nothing is there.
func (r read) blank() bool {
	if r.digest != "" {
		return r.digest == blank
	}
	return r.desired == nil && r.presence == graph.Absent
}

// blank is the digest of what is not there and not wanted.
const blank = "-"

// IsZero reports whether there is no base.
func (b Base) IsZero() bool { return b.steps == 0 }

// String digests the base, for this process only.
func (b Base) String() string {
	h := sumOffset.num(b.steps)
	for _, r := range b.reads {
		h = h.text(string(r.key)).text(r.digest).num(r.stamp).num(uint64(r.gen)<<8 | uint64(r.presence))
	}
	return fmt.Sprintf("%016x", uint64(h))
}

const sumLen = 32 // without the salt

// Save makes the base outlive the process: how the keys stood becomes digests
// of their values. It fails if the kind of one has no Encode.
func (b Base) Save() (SavedBase, error) {
	out := SavedBase{Reads: make([]Read, 0, len(b.reads))}
	salt := b.salt()
	h := sha256.New()
	for _, r := range b.reads {
		d, err := r.content(salt)
		if err != nil {
			return SavedBase{}, fmt.Errorf("the plan cannot be saved: %w", err)
		}
		if d == blank {
			continue
		}
		out.Reads = append(out.Reads, Read{r.key, d})
		fmt.Fprintf(h, "%s %s\n", r.key, d)
	}
	out.Sum = fmt.Sprintf("%016x%s%s", b.steps, hex.EncodeToString(h.Sum(nil)[:8]), salt)
	return out, nil
}

// salt is empty where nothing is secret: equal plans are told alike then.
func (b Base) salt() string {
	for _, r := range b.reads {
		switch {
		case r.salt != "":
			return r.salt // it was loaded
		case r.kind != nil && r.kind.Secrets != nil:
			return rand.Text()
		}
	}
	return ""
}

// Load makes a base of a saved one. What was not written by Save fits nothing.
func (s SavedBase) Load() Base {
	b := Base{reads: make([]read, len(s.Reads))}
	salt := s.Sum[min(len(s.Sum), sumLen):]
	for i, r := range s.Reads {
		b.reads[i] = read{key: r.Key, digest: r.Digest, salt: salt}
	}
	slices.SortFunc(b.reads, func(a, c read) int { return cmp.Compare(a.key, c.key) })
	if _, err := fmt.Sscanf(s.Sum, "%16x", &b.steps); err != nil || b.steps == 0 {
		b.steps = 1
	}
	return b
}

// content digests how the key stood, by its values. Of an actual value
// that is as wanted only the wanted one counts: read anew it may look otherwise.
func (r read) content(salt string) (string, error) {
	if r.digest != "" || r.blank() {
		return cmp.Or(r.digest, blank), nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%s%d %v %v\n", salt, r.presence, r.same, r.foreign)
	values := []any{r.desired, r.kind.Show(r.actual)}
	if r.same {
		values = values[:1]
	}
	for _, v := range values {
		if v == nil {
			h.Write([]byte{0})
			continue
		}
		text, err := r.encode(v)
		if err != nil {
			return "", err
		}
		h.Write(binary.AppendUvarint([]byte{1}, uint64(len(text))))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

func (r read) encode(v any) (text []byte, err error) {
	if r.kind == nil || r.kind.Encode == nil {
		return nil, fmt.Errorf("the kind of %s has no codec: give its descriptor Encode and Decode", r.key)
	}
	if text, err = kind.EncodeValue(r.kind, v); err != nil {
		err = fmt.Errorf("encoding %s: %w", r.key, err)
	}
	return text, err
}

// stands reports whether a key that stood as r still does.
func (r read) stands(now read) bool {
	switch {
	case r.blank() || now.blank():
		return r.blank() && now.blank()
	case r.digest != "":
		d, err := now.content(r.salt)
		return err == nil && d == r.digest
	}
	return r.kind == now.kind && r.stamp == now.stamp && r.gen == now.gen && r.presence == now.presence &&
		r.same == now.same && r.foreign == now.foreign &&
		r.sameValue(r.desired, now.desired) && r.sameValue(r.actual, now.actual)
}

// sameValue: versions count anew when a key is forgotten and comes back.
func (r read) sameValue(a, b any) (same bool) {
	if a == nil || b == nil || r.kind == nil {
		return a == nil && b == nil || r.kind == nil
	}
	defer func() {
		if recover() != nil {
			same = false
		}
	}()
	return r.kind.Compare(r.key, a, b).Change == kv.Same
}

// Moved compares a base with that of a plan made later. The error, which is
// ErrBaseMoved, names what moved; it is nil if the plan is the same.
func (b Base) Moved(now Base) error {
	was, is, all := map[kv.Key]read{}, map[kv.Key]read{}, map[kv.Key]bool{}
	for _, r := range b.reads {
		was[r.key], all[r.key] = r, true
	}
	for _, r := range now.reads {
		is[r.key], all[r.key] = r, true
	}
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		if !was[k].stands(is[k]) {
			keys = append(keys, string(k))
		}
	}
	const named = 3
	switch more := len(keys) - named; {
	case more > 0:
		return fmt.Errorf("%w: %s and %d more", kv.ErrBaseMoved, strings.Join(keys[:named], ", "), more)
	case len(keys) > 0:
		return fmt.Errorf("%w: %s", kv.ErrBaseMoved, strings.Join(keys, ", "))
	case b.steps != now.steps:
		return fmt.Errorf("%w: other steps are due by now", kv.ErrBaseMoved)
	}
	return nil
}

// sum is a running FNV-1a hash: what it digests is not secret, and a plan is
// made of little.
type sum uint64

const sumOffset sum = 14695981039346656037

func (s sum) text(t string) sum {
	for i := range len(t) {
		s = (s ^ sum(t[i])) * 1099511628211
	}
	return (s ^ 0xff) * 1099511628211
}

func (s sum) num(n uint64) sum {
	for range 8 {
		s = (s ^ sum(n&0xff)) * 1099511628211
		n >>= 8
	}
	return s
}
