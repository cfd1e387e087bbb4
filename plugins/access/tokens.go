package access

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// Entry is a line of a file of tokens: whose token it is, and its digest.
//
//	amy operator sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
//
// A digest without salt is enough, since tokens are random.
type Entry struct {
	Name   string
	Role   Role
	Digest [sha256.Size]byte
}

func (e Entry) String() string {
	return fmt.Sprintf("%s %s %s%x", e.Name, e.Role, digestPrefix, e.Digest)
}

const (
	digestPrefix = "sha256:"
	// tokenPrefix lets people and scanners for secrets know what they have found.
	tokenPrefix = "plumb_"
)

// NewToken makes a random token, which is told this once, and its entry.
func NewToken(name string, role Role) (token string, e Entry, err error) {
	if err := checkName(name); err != nil {
		return "", e, err
	}
	var secret [32]byte
	rand.Read(secret[:]) // never fails
	token = tokenPrefix + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, Entry{Name: name, Role: role, Digest: sha256.Sum256([]byte(token))}, nil
}

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._@-]{0,63}$`)

func checkName(name string) error {
	if !namePattern.MatchString(name) {
		return fmt.Errorf("%q is no name for a token: want 1 to 64 letters, digits and . _ @ -, and none of these first", name)
	}
	return nil
}

// Tokens are the entries of a file. Somebody may have several, so that a new one can be in
// use before the old one goes.
type Tokens []Entry

// ParseTokens reads the file; errors name it and the line, and never quote a line: a token
// may stand there by mistake. Empty lines and those that begin with # say nothing.
func ParseTokens(file string, text []byte) (Tokens, error) {
	var all Tokens
	role, lines := map[string]Role{}, map[[sha256.Size]byte]int{}
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		e, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		if was, known := role[e.Name]; known && was != e.Role {
			return nil, fmt.Errorf("%s:%d: %s is %s here and %s before; tokens of one name have one role", file, n, e.Name, e.Role, was)
		}
		if lines[e.Digest] != 0 {
			return nil, fmt.Errorf("%s:%d: this token is in line %d already", file, n, lines[e.Digest])
		}
		role[e.Name], lines[e.Digest] = e.Role, n
		all = append(all, e)
	}
	return all, nil
}

func parseEntry(line string) (e Entry, err error) {
	fields := strings.Fields(line)
	if len(fields) != 3 {
		return e, fmt.Errorf("want three words, NAME ROLE %sDIGEST, as `agentctl token create` writes them", digestPrefix)
	}
	if !namePattern.MatchString(fields[0]) {
		return e, fmt.Errorf("the first word is no name: want 1 to 64 letters, digits and . _ @ -")
	}
	if e.Role, err = ParseRole(fields[1]); err != nil {
		return e, fmt.Errorf("the second word is no role; there are viewer, operator, admin")
	}
	digits, ok := strings.CutPrefix(fields[2], digestPrefix)
	sum, err := hex.DecodeString(digits)
	if !ok || err != nil || len(sum) != sha256.Size || strings.ToLower(digits) != digits {
		return e, fmt.Errorf("the third word is no digest: want %s and 64 digits from 0 to f; it is never the token itself", digestPrefix)
	}
	e.Name, e.Digest = fields[0], [sha256.Size]byte(sum)
	return e, nil
}

// Find is the entry of a token. It takes as long whether there is one or not.
func (t Tokens) Find(token string) (found Entry, ok bool) {
	sum := sha256.Sum256([]byte(token))
	for _, e := range t {
		if subtle.ConstantTimeCompare(sum[:], e.Digest[:]) == 1 {
			found, ok = e, true
		}
	}
	return found, ok
}
