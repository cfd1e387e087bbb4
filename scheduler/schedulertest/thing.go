package schedulertest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/scheduler"
)

// Thing is a value: a text, what it needs, what it derives.
type Thing struct {
	Text string
	// Needs are keys; one that ends in a slash is any key below, "k=v" wants
	// the needed thing's text to be v. With "k@" the thing is built with the
	// needed thing's text, with "k#" with what its last operation left (its
	// metadata), and is built anew when that changes.
	Needs []string
	// Peer is a key needed together with this one.
	Peer string
	// Derives are names of derived values, each below "<derived kind>/<name of
	// this>/". "p<k" needs k also, "p>q" itself derives q, "p:v" has the text v.
	Derives []string
	// Claims are names that only one may have.
	Claims []string
	// Fixed: a change of the text replaces instead of updating.
	Fixed bool
	// Alone: the text changes in place, when nothing depends on the thing.
	Alone bool
	// Bad is refused by validation.
	Bad bool
}

// Equal calls all things equal. Every kind of a World says by itself what is equal: a
// scheduler that asks the values loses what is wanted, and histories show it.
func (Thing) Equal(Thing) bool { return true }

// SameAs reports whether two things are alike in all that a read shows.
func (t Thing) SameAs(o Thing) bool {
	return t.Text == o.Text && t.Peer == o.Peer && slices.Equal(t.Needs, o.Needs) && slices.Equal(t.Claims, o.Claims) &&
		slices.Equal(t.Derives, o.Derives)
}

// ParseThing reads what String writes:
//
//	text [needs=k,…] [peer=k] [derives=p,…] [claims=n,…] [fixed] [alone] [bad]
func ParseThing(words []string) (Thing, error) {
	if len(words) == 0 || strings.Contains(words[0], "=") {
		return Thing{}, fmt.Errorf("a thing begins with its text, not %q", words)
	}
	t := Thing{Text: words[0]}
	for _, w := range words[1:] {
		name, list, _ := strings.Cut(w, "=")
		switch name {
		case "needs":
			t.Needs = strings.Split(list, ",")
		case "derives":
			t.Derives = strings.Split(list, ",")
		case "claims":
			t.Claims = strings.Split(list, ",")
		case "peer":
			t.Peer = list
		case "fixed":
			t.Fixed = true
		case "alone":
			t.Alone = true
		case "bad":
			t.Bad = true
		default:
			return t, fmt.Errorf("%q says nothing about a thing", w)
		}
	}
	return t, nil
}

// String is the thing as ParseThing reads it.
func (t Thing) String() string {
	var b strings.Builder
	b.WriteString(t.Text)
	list := func(name string, l []string) {
		if len(l) > 0 {
			b.WriteString(name)
			b.WriteString(strings.Join(l, ","))
		}
	}
	list(" needs=", t.Needs)
	if t.Peer != "" {
		b.WriteString(" peer=" + t.Peer)
	}
	list(" derives=", t.Derives)
	list(" claims=", t.Claims)
	if t.Fixed {
		b.WriteString(" fixed")
	}
	if t.Alone {
		b.WriteString(" alone")
	}
	if t.Bad {
		b.WriteString(" bad")
	}
	return b.String()
}

// ParseNeed splits what Thing.Needs says; how is '=', '@', '#' or 0.
func ParseNeed(n string) (key, text string, how byte) {
	i := strings.IndexAny(n, "=@#")
	if i < 0 {
		return n, "", 0
	}
	return n[:i], n[i+1:], n[i]
}

// Under reports whether a key is one of those that a need for any asks for: "a/1/+a/+b/" is
// all below a/1/, and those in a/ and b/ themselves.
func Under(need string, k scheduler.Key) bool {
	folders := strings.Split(need, "+")
	folder := string(k)[:strings.LastIndexByte(string(k), '/')+1]
	return strings.HasPrefix(string(k), folders[0]) || slices.Contains(folders[1:], folder)
}

// Derivation is one entry of Thing.Derives, read.
func Derivation(d string) (name string, t Thing) {
	d, nested, _ := strings.Cut(d, ">")
	d, needs, _ := strings.Cut(d, "<")
	name, text, told := strings.Cut(d, ":")
	t.Text = "derived"
	if told {
		t.Text = text
	}
	if needs != "" {
		t.Needs = []string{needs}
	}
	if nested != "" {
		t.Derives = []string{nested}
	}
	return name, t
}

// KindName is the kind of a key: what is before the first slash.
func KindName(k scheduler.Key) string {
	name, _, _ := strings.Cut(string(k), "/")
	return name
}

// Rest is what follows the first slash of a key.
func Rest(k scheduler.Key) string {
	_, r, _ := strings.Cut(string(k), "/")
	return r
}
