package models

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestReferencesAreComplete: a field of a writable kind that names another value, as its comment says, is in
// the table, and no other field is.
func TestReferencesAreComplete(t *testing.T) {
	names := regexp.MustCompile(`(?i)logical names? of|name of (a|the) (nexthop|ipclaim|ippool)|ippool that|<?claim:|pool of`)
	var seen []string
	var walk func(d protoreflect.MessageDescriptor)
	walk = func(d protoreflect.MessageDescriptor) {
		for i := range d.Fields().Len() {
			f := d.Fields().Get(i)
			name := strings.TrimPrefix(string(f.FullName()), "plumb.v1.")
			if slices.Contains(seen, name) {
				continue
			}
			seen = append(seen, name)
			if f.Kind() == protoreflect.MessageKind {
				if !f.IsMap() {
					walk(f.Message())
				}
				continue
			}
			_, listed := references[name]
			if says := f.Kind() == protoreflect.StringKind && names.MatchString(comments()[name]); says != listed {
				t.Errorf("%s: in the table %t, by its comment %t: %s", name, listed, says, comments()[name])
			}
		}
	}
	for _, k := range kinds {
		if k.Writable {
			walk(k.New().ProtoReflect().Descriptor())
		}
	}
	for name := range references {
		if !slices.Contains(seen, name) {
			t.Errorf("%s is no field of a writable kind", name)
		}
	}
}

func TestRenameReferences(t *testing.T) {
	rename := func(kind, name string) string { return kind + "." + name }
	for _, c := range []struct{ key, value, want string }{
		{"interface/a", `{"macvlan":{"parent":"up"},"master":"br","addresses":["10.0.0.1/24","claim:c"]}`,
			`{"addresses":["10.0.0.1/24","claim:ipclaim.c"],"macvlan":{"parent":"interface.up"},"master":"interface.br"}`},
		{"route/a", `{"destination":"claim:c","nexthops":[{"interface":"x"},{"interface":"y"}]}`,
			`{"destination":"claim:ipclaim.c","nexthops":[{"interface":"interface.x"},{"interface":"interface.y"}]}`},
		{"rule/a", `{"iif":"lo","oif":"up","table":7,"family":"ipv4","priority":1}`,
			`{"family":"ipv4","iif":"lo","oif":"interface.up","priority":1,"table":7}`},
		{"nexthop/a", `{"id":1,"group":[{"nexthop":"b"}],"family":"ipv4"}`,
			`{"family":"ipv4","group":[{"nexthop":"nexthop.b"}],"id":1}`},
		{"nftables/a", `{"chains":[{"name":"out","rules":["snat to <claim:c>","ip saddr { <claim:d>, 10.0.0.1 } drop"]}]}`,
			`{"chains":[{"name":"out","rules":["snat to <claim:ipclaim.c>","ip saddr { <claim:ipclaim.d>, 10.0.0.1 } drop"]}]}`},
	} {
		kind, _, _ := strings.Cut(c.key, "/")
		msg, err := DecodeKind(kind, []byte(c.value))
		if err != nil {
			t.Fatal(err)
		}
		RenameReferences(msg, rename)
		want, err := DecodeKind(kind, []byte(c.want))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(Encode(msg)); got != string(Encode(want)) {
			t.Errorf("%s %s\n got %s\nwant %s", c.key, c.value, got, c.want)
		}
	}
}
