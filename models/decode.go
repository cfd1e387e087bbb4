package models

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
)

// MaxValue bounds a value in bytes of JSON.
const MaxValue = 256 << 10

// Decode reads a value that a source wants: JSON with the names of
// models.proto, in both spellings. Everything that is wrong with the key or
// the value comes back as an *InvalidError.
func Decode(key string, data []byte) (proto.Message, error) {
	kind, name, err := SplitKey(key)
	if err != nil {
		return nil, err
	}
	if k, _ := KindByName(kind); !k.Writable {
		return nil, invalid("", "%s is observed and cannot be written", kind)
	}
	if kind == KindAddress && strings.Contains(name, "/") {
		iface, _, _ := strings.Cut(name, "/")
		return nil, invalid("", "%s is derived and cannot be written; change the addresses of %s, or name the address address/<name>",
			key, InterfaceKey(iface))
	}
	msg, err := DecodeKind(kind, data)
	if err != nil {
		return nil, err
	}
	if err := Validate(key, msg); err != nil {
		return nil, err
	}
	return msg, nil
}

// DecodeKind reads a value of any kind, observed ones too, and checks its
// shape but not its meaning.
func DecodeKind(kind string, data []byte) (proto.Message, error) {
	k, err := KindByName(kind)
	if err != nil {
		return nil, err
	}
	if len(data) > MaxValue {
		return nil, invalid("", "the value has %d bytes; at most %d (256 KiB) are allowed", len(data), MaxValue)
	}
	text := string(data)
	if strings.Trim(text, " \t\r\n") == "" {
		return nil, invalid("", "the value is empty; write at least {}")
	}
	room := rooms.Get().(*[4 * usual]member)
	defer func() {
		clear(room[:])
		rooms.Put(room)
	}()
	tree, err := parseJSON(text, room[:])
	if err != nil {
		return nil, invalid("", "%v", err)
	}
	if tree.kind != '{' {
		return nil, invalid("", "must be an object, not %s; write at least {}", tree.show())
	}
	msg := k.New()
	var found findings
	readShape(tree, msg.ProtoReflect(), "", &found)
	if err := found.err(); err != nil {
		return nil, err
	}
	if v, ok := msg.(*Interface); ok && tree.saysNone("addresses") && !tree.names("addresses_exclusive") {
		v.AddressesExclusive = true
	}
	return msg, nil
}

// saysNone reports whether an object has a member that is an empty list, which messages cannot tell
// from one that is missing.
func (n node) saysNone(name string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool {
		return m.name == name && m.value.kind == '[' && len(m.value.items) == 0
	})
}

// names reports whether an object has a member.
func (n node) names(name string) bool {
	return slices.ContainsFunc(n.members, func(m member) bool { return m.name == name })
}
