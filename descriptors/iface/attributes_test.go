package iface_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/netlink/hosttest"
	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
	"github.com/plumb-net/plumb/scheduler"
)

// attributeStories has a file for each type of link, and what they have in common.
const attributeStories = "testdata/attributes"

// TestAttributes plays the life of links on the kernel, by its own eyes and by those of
// ip(8). A block is the life of one link, line by line:
//
//	before NAME VALUE   an interface that it stands on, made first
//	there COMMAND       somebody else makes what it is to take over
//	show FIELD…         what ip(8) is asked for after each of the steps below, of features
//	                    ethtool(8)
//	make VALUE          it is made: found as wanted, also by its mark alone; it is not
//	                    touched when it is made or changed again to be the same
//	change VALUE        it becomes another, in place or as another link, with the reason
//	print COMMAND       what another program shows
//	others COMMAND      somebody else runs a command; what differs is told, and repaired
//
// At the end it is deleted, twice. What the kernel of this machine does not have must be
// refused for good; under the kernels of Debian (tests/kernels) it must be there.
func TestAttributes(t *testing.T) {
	datadriven.Walk(t, attributeStories, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			b := newBench(t, "blue", "red")
			s := &life{bench: b, t: t, name: d.CmdArgs[0].Key}
			defer s.end()
			for line := range strings.Lines(d.Input) {
				if s.step(d, strings.TrimSpace(line)); s.lacking {
					return d.Expected
				}
			}
			return s.said.String()
		})
	})
}

// TestAttributesInMemory plays the same lives in memory. There is no ip(8) that could show a link:
// what is judged is whether a link is made as it is wanted, and how it becomes another, with the
// same reason.
func TestAttributesInMemory(t *testing.T) {
	datadriven.Walk(t, attributeStories, func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			s := &life{bench: newBenchOn(t, hosttest.Memory(), "blue", "red"), t: t, name: d.CmdArgs[0].Key}
			defer s.end()
			for line := range strings.Lines(d.Input) {
				s.step(d, strings.TrimSpace(line))
			}
			if got, want := verdicts(s.said.String()), verdicts(d.Expected); got != want {
				t.Errorf("%s:\n%s\ngot\n%s\nwant\n%s", d.Pos, d.Input, got, want)
			}
			return d.Expected
		})
	})
}

// verdicts are how a link became what it is, and why, of what a life says.
func verdicts(said string) string {
	var b strings.Builder
	for line := range strings.Lines(said) {
		how, _, _ := strings.Cut(line, ":")
		switch {
		case slices.Contains([]string{"made", "in place", "replaced", "repaired", "left"}, how):
			b.WriteString(how + "\n")
		case how == "refused", strings.HasPrefix(line, "  ") && !strings.HasPrefix(line, "   "):
			b.WriteString(line)
		}
	}
	return b.String()
}

// life is that of one link.
type life struct {
	*bench
	t       *testing.T
	name    string
	fields  []string
	said    strings.Builder
	lacking bool // the kernel has no such links
	made    bool
}

func (s *life) key() scheduler.Key { return scheduler.Key(models.InterfaceKey(s.name)) }

// place is where the link is.
func (s *life) place() *netlinktest.Namespace {
	v, _ := s.self.Wanted(s.key())
	return s.ns(v.GetNamespace().GetNetns())
}

func (s *life) step(d *datadriven.TestData, line string) {
	s.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "before":
		name, value, _ := strings.Cut(rest, " ")
		if _, err := s.try(name, value); err != nil {
			s.lack(err)
		}
	case "there":
		s.somebody(nil, rest)
	case "show":
		s.fields = strings.Fields(rest)
	case "make":
		s.begin(rest)
	case "change":
		s.change(rest)
	case "others":
		s.others(rest)
	case "print":
		if s.own == nil {
			return
		}
		s.said.WriteString(s.place().Run(s.t, strings.Fields(rest)...))
	default:
		d.Fatalf(s.t, "unknown step %q", line)
	}
}

// lack ends the story where the kernel has not what it is about.
func (s *life) lack(err error) {
	s.t.Helper()
	var class *scheduler.OpError
	if !errors.Is(err, kernel.ErrUnsupported) || !errors.As(err, &class) || !class.Terminal {
		s.t.Fatal(err)
	}
	if suite := os.Getenv("PLUMB_KERNEL"); suite != "" {
		s.t.Fatalf("the kernel of %s: %v", suite, err)
	}
	s.lacking = true
}

func (s *life) begin(value string) {
	s.t.Helper()
	if _, err := s.try(s.name, value); err != nil {
		if errors.Is(err, kernel.ErrUnsupported) {
			s.lack(err)
			return
		}
		fmt.Fprintf(&s.said, "refused: %v\n", err)
		return
	}
	s.made = true
	s.check(value)
	fmt.Fprintf(&s.said, "made:%s\n", s.shown())
}

// check: a link that is as wanted is found so, and is not touched.
func (s *life) check(value string) {
	s.t.Helper()
	s.same(s.name)
	if n := s.writesOf(func() { s.make(s.name, value) }); n > 1 {
		s.t.Errorf("%d writes for what is there already, want at most the refused one", n)
	}
	if n := s.writesOf(func() {
		if err := s.update(s.name, value); err != nil {
			s.t.Error(err)
		}
	}); n != 0 {
		s.t.Errorf("%d writes for an equal update", n)
	}
	v, _ := s.self.Wanted(s.key())
	if got, want := s.alias(v), "plumb:host7:interface/"+s.name; got != want && !adopted(v) {
		s.t.Errorf("alias %q, want %q", got, want)
	}
	if !adopted(v) { // of those the ledger alone knows
		*s.ledger = kernel.MemLedger{}
		s.same(s.name)
	}
}

// alias is that of the link, by the eyes of ip(8) where it is there.
func (s *life) alias(v *models.Interface) string {
	s.t.Helper()
	name := v.EffectiveHostName(string(s.key()))
	if s.own != nil {
		return fmt.Sprint(s.place().Show(s.t, name)["ifalias"])
	}
	l, err := s.Link(s.in(v), name)
	if err != nil {
		s.t.Fatal(err)
	}
	return l.Alias
}

// somebody else runs a command where a value is.
func (s *life) somebody(v *models.Interface, command string) {
	s.t.Helper()
	if s.own != nil {
		words := strings.Fields(command)
		if words[0] == "sysctl" { // which not every machine has
			words = append([]string{"busybox"}, words...)
		}
		s.ns(v.GetNamespace().GetNetns()).Run(s.t, words...)
		return
	}
	s.Do(s.t, s.in(v), command)
}

func adopted(v *models.Interface) bool { return v.GetExisting() != nil || v.GetLoopback() != nil }

func (s *life) change(value string) {
	s.t.Helper()
	from, before, _ := s.self.Get(s.key())
	verdict := s.kind.Compare(s.key(), from, s.value(value))
	how := "in place"
	switch verdict.Change {
	case scheduler.Same:
		s.t.Errorf("%s: the same", value)
	case scheduler.Replace:
		how = "replaced"
		if err := s.delete(s.name); err != nil {
			s.t.Fatal(err)
		}
		s.make(s.name, value)
	default:
		if err := s.update(s.name, value); err != nil {
			s.t.Fatalf("update to %s: %v", value, err)
		}
	}
	if _, now, _ := s.self.Get(s.key()); how == "in place" && now != before {
		s.t.Errorf("the update made another link: %v, was %v", now, before)
	}
	s.check(value)
	fmt.Fprintf(&s.said, "%s:%s\n  %s\n", how, s.shown(), verdict.Reason)
}

func (s *life) others(command string) {
	s.t.Helper()
	v, _ := s.self.Wanted(s.key())
	s.somebody(v, command)
	verdict := s.kind.Compare(s.key(), s.look(s.name)[s.key()].Value, v)
	if verdict.Change != scheduler.Same {
		_, ref, _ := s.self.Get(s.key())
		if _, err := s.kind.Update(context.Background(), s.key(), v, v, ref); err != nil {
			s.t.Fatalf("repair after %s: %v", command, err)
		}
		s.same(s.name)
	}
	if verdict.Change == scheduler.Same {
		fmt.Fprintf(&s.said, "left:%s\n", s.shown())
		return
	}
	fmt.Fprintf(&s.said, "repaired:%s\n  %s\n", s.shown(), verdict.Reason)
}

// shown is what ip(8) shows of the fields, and ethtool(8) of features.
func (s *life) shown() string {
	s.t.Helper()
	if s.own == nil {
		return ""
	}
	v, _ := s.self.Wanted(s.key())
	link := s.place().Show(s.t, v.EffectiveHostName(string(s.key())))
	if strings.Contains(strings.Join(s.fields, " "), "features.") {
		link["features"] = s.features(v.EffectiveHostName(string(s.key())))
	}
	var b strings.Builder
	for _, f := range s.fields {
		if f == "up" { // as it was asked for, whatever the carrier
			flags, _ := link["flags"].([]any)
			fmt.Fprintf(&b, " up=%v", slices.Contains(flags, any("UP")))
			continue
		}
		fmt.Fprintf(&b, " %s=%v", f[strings.LastIndex(f, ".")+1:], dig(link, f))
	}
	return b.String()
}

// features are those of a link that ethtool(8) shows as switched on, or off.
func (s *life) features(link string) map[string]any {
	s.t.Helper()
	var all []map[string]any
	if err := json.Unmarshal([]byte(s.place().Run(s.t, "ethtool", "--json", "-k", link)), &all); err != nil || len(all) != 1 {
		s.t.Fatal(err)
	}
	active := map[string]any{}
	for name, f := range all[0] {
		active[name] = dig(f, "active")
	}
	return active
}

// end deletes the link; what is not there needs no deletion.
func (s *life) end() {
	s.t.Helper()
	if !s.made || s.t.Failed() {
		return
	}
	v, ref, _ := s.self.Get(s.key())
	for range 2 {
		if err := s.kind.Delete(context.Background(), s.key(), v, ref); err != nil {
			s.t.Fatalf("delete: %v", err)
		}
	}
	s.self.drop(s.key())
	if _, err := s.LinkByIndex(ref.NS, ref.Index); !errors.Is(err, kernel.ErrNotExist) && !adopted(v) {
		s.t.Errorf("after the deletion: %v", err)
	}
	if _, ok := s.ledger.Get(string(s.key())); ok {
		s.t.Error("the ledger still names it")
	}
}

// TestEveryAttributeIsPlayed: each field of each type of link has at least two values in one
// of the lives of TestAttributes, of which one may be none.
func TestEveryAttributeIsPlayed(t *testing.T) {
	values := map[string]map[string]bool{} // by field
	files, err := filepath.Glob(attributeStories + "/*")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no stories")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			verb, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			if verb != "make" && verb != "change" {
				continue
			}
			msg, err := models.DecodeKind(models.KindInterface, []byte(value))
			if err != nil {
				t.Fatalf("%s: %s: %v", file, value, err)
			}
			note(msg.ProtoReflect(), "", values)
		}
	}
	for _, field := range fieldsOf((&models.Interface{}).ProtoReflect().Descriptor(), "") {
		if len(values[field]) < 2 && !slices.Contains(elsewhere, field) {
			t.Errorf("%s has no two values in %s", field, attributeStories)
		}
	}
}

// elsewhere are fields whose values are played by other tests.
var elsewhere = []string{
	"namespace.microservice", "namespace.container", "namespace.pid", "namespace.path", "namespace.pod", "namespace.inode", // selector, iface see places only
	"addresses", "link_only", "addresses_exclusive", "duplicate_detection", // descriptors/address
	"set_once", "veth.peer", "bridge.forward", // testdata/pure/compare, TestVethIsBornInPlace, descriptors/forward
	"rings.rx", "rings.tx", // TestRings
	"adopt", // TestTakeOver
}

// note adds the value of each field, "" where it is not set and its message is.
func note(m protoreflect.Message, at string, values map[string]map[string]bool) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := strings.TrimPrefix(at+"."+string(fd.Name()), ".")
		if one := fd.ContainingOneof(); one != nil && !one.IsSynthetic() && !m.Has(fd) {
			continue
		}
		switch {
		case fd.IsList() && fd.Message() != nil:
			for j := range m.Get(fd).List().Len() {
				note(m.Get(fd).List().Get(j).Message(), name, values)
			}
		case fd.Message() != nil && !fd.IsMap():
			if m.Has(fd) {
				note(m.Get(fd).Message(), name, values)
			}
		default:
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][fmt.Sprint(m.Has(fd), m.Get(fd))] = true
		}
	}
}

func fieldsOf(md protoreflect.MessageDescriptor, at string) (names []string) {
	for i := range md.Fields().Len() {
		fd := md.Fields().Get(i)
		name := strings.TrimPrefix(at+"."+string(fd.Name()), ".")
		if fd.Message() != nil && !fd.IsMap() {
			names = append(names, fieldsOf(fd.Message(), name)...)
		} else {
			names = append(names, name)
		}
	}
	return names
}
