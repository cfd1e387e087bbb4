package models

import (
	"regexp"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// form is how a field names another value.
type form int

const (
	byName  form = iota // NAME
	byClaim             // claim:NAME, among texts that name nothing
	inText              // <claim:NAME>, anywhere in a text
)

// reference is how a field names values of a kind.
type reference struct {
	kind string
	form form
	// except is a name that stands for something else.
	except string
}

// references are the fields that name other values, by their full names in models.proto.
var references = map[string]reference{
	"Interface.addresses":   {KindIPClaim, byClaim, ""},
	"Interface.master":      {kind: KindInterface},
	"Veth.peer":             {kind: KindInterface},
	"Vxlan.parent":          {kind: KindInterface},
	"Vlan.parent":           {kind: KindInterface},
	"Macvlan.parent":        {kind: KindInterface},
	"Ipvlan.parent":         {kind: KindInterface},
	"Gre.parent":            {kind: KindInterface},
	"Tunnel.parent":         {kind: KindInterface},
	"Sit.parent":            {kind: KindInterface},
	"Route.interface":       {kind: KindInterface},
	"Route.destination":     {KindIPClaim, byClaim, ""},
	"Route.source":          {KindIPClaim, byClaim, ""},
	"Route.nexthop":         {kind: KindNexthop},
	"NextHop.interface":     {kind: KindInterface},
	"Address.interface":     {kind: KindInterface},
	"Address.claim":         {kind: KindIPClaim},
	"Chain.devices":         {kind: KindInterface},
	"Chain.rules":           {KindIPClaim, inText, ""},
	"NamedSet.elements":     {KindIPClaim, inText, ""},
	"NamedMap.elements":     {KindIPClaim, inText, ""},
	"Flowtable.devices":     {kind: KindInterface},
	"Sysctl.interface":      {kind: KindInterface},
	"Neighbor.interface":    {kind: KindInterface},
	"Rule.iif":              {KindInterface, byName, "lo"},
	"Rule.oif":              {KindInterface, byName, "lo"},
	"Nexthop.interface":     {kind: KindInterface},
	"NexthopMember.nexthop": {kind: KindNexthop},
	"FDB.interface":         {kind: KindInterface},
	"Qdisc.interface":       {kind: KindInterface},
	"Mirror.interface":      {kind: KindInterface},
	"Mirror.to":             {kind: KindInterface},
	"Forward.interface":     {kind: KindInterface},
	"IPClaim.pool":          {kind: KindIPPool},
}

// RenameReferences replaces the name of each value that msg names by what rename returns for its kind and
// name.
func RenameReferences(msg proto.Message, rename func(kind, name string) string) {
	renameReferences(msg.ProtoReflect(), rename)
}

func renameReferences(m protoreflect.Message, rename func(kind, name string) string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap(): // no map names values
		case f.Kind() == protoreflect.MessageKind && f.IsList():
			for i := range v.List().Len() {
				renameReferences(v.List().Get(i).Message(), rename)
			}
		case f.Kind() == protoreflect.MessageKind:
			renameReferences(v.Message(), rename)
		default:
			r, ok := references[strings.TrimPrefix(string(f.FullName()), "plumb.v1.")]
			switch {
			case !ok:
			case f.IsList():
				for i := range v.List().Len() {
					v.List().Set(i, protoreflect.ValueOfString(r.rename(v.List().Get(i).String(), rename)))
				}
			default:
				m.Set(f, protoreflect.ValueOfString(r.rename(v.String(), rename)))
			}
		}
		return true
	})
}

var claimInText = regexp.MustCompile(`<` + ClaimPrefix + `[^<>]*>`)

func (r reference) rename(text string, rename func(kind, name string) string) string {
	switch r.form {
	case byClaim:
		if name, ok := strings.CutPrefix(text, ClaimPrefix); ok {
			return ClaimPrefix + rename(r.kind, name)
		}
		return text
	case inText:
		return claimInText.ReplaceAllStringFunc(text, func(s string) string {
			return "<" + ClaimPrefix + rename(r.kind, s[len("<"+ClaimPrefix):len(s)-1]) + ">"
		})
	}
	if text == "" || text == r.except {
		return text
	}
	return rename(r.kind, text)
}
