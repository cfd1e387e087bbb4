package kind

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Survey collects what others made and nobody wants, as values that equal it. A kind that can
// take such objects over has a function Survey that adds its own; the interfaces come first,
// for the others name them.
type Survey struct {
	Kernel kernel.Kernel
	Owner  *kernel.Owner
	Places []Place
	// Names are the logical names of links: of interfaces that are wanted, and of those that
	// have been found.
	Names *kernel.Names
	// Refused says why a value may not be written; nil: nothing is refused.
	Refused func(key string, v proto.Message) error
	// Wanted are the values that are wanted already, and those that have been found.
	Wanted map[scheduler.Key]proto.Message

	Found []Found
	Left  []Left
}

// Place is a namespace that is searched.
type Place struct {
	NS kernel.NS
	// In is how values call it, nil for the agent's own, and Name its name, "" for that.
	In   *models.Namespace
	Name string
}

// Found is an object as a value that equals it.
type Found struct {
	Key   scheduler.Key
	Value proto.Message
	Place Place
}

// Left is an object that is not to be adopted, or cannot be.
type Left struct{ What, Why string }

// Name makes the name of a key, which nobody else has, of what the kernel calls an object.
func (s *Survey) Name(kind string, p Place, text string) string {
	if p.Name != "" {
		text = p.Name + "-" + text
	}
	text = models.Escape(strings.ReplaceAll(text, "/", "_"))
	name := text
	for n := 2; ; n++ {
		if _, taken := s.Wanted[scheduler.Key(kind+"/"+name)]; !taken {
			break
		}
		name = fmt.Sprintf("%s-%d", text, n)
	}
	s.Wanted[scheduler.Key(kind+"/"+name)] = nil // soon
	return name
}

// Claimed are the claims of what is wanted of a kind: an object that one of them names is
// wanted already, be it there or in the way.
func Claimed[V proto.Message](s *Survey, claims func(scheduler.Key, V) []scheduler.Claim) func(V) bool {
	had := map[string]bool{}
	for k, msg := range s.Wanted {
		if v, is := msg.(V); is {
			for _, c := range claims(k, v) {
				had[c.ID] = true
			}
		}
	}
	return func(v V) bool {
		return slices.ContainsFunc(claims("", v), func(c scheduler.Claim) bool { return had[c.ID] })
	}
}

// Add adds an object. What cannot be written is left out, with the reason.
func (s *Survey) Add(p Place, what, key string, v proto.Message) {
	if err := models.Validate(key, v); err != nil {
		s.Leave(p, what, "it cannot be said as a value: %v", err)
		return
	}
	s.Found = append(s.Found, Found{Key: scheduler.Key(key), Value: v, Place: p})
}

// Leave says that an object of a place is left out, and why.
func (s *Survey) Leave(p Place, what, why string, args ...any) {
	if p.Name != "" {
		what += " in netns " + p.Name
	}
	s.Left = append(s.Left, Left{What: what, Why: fmt.Sprintf(why, args...)})
}

// Link is the logical name of a link, false if it has none: then what is on it is left out.
func (s *Survey) Link(ns kernel.NS, index int) (string, bool) {
	return s.Names.Of(kernel.LinkRef{NS: ns, Index: index})
}
