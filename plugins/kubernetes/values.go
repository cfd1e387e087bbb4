package kubernetes

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/file"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// Anyone who may create a pod may write its annotations, and PodIntents are for users of a namespace too. So the values
// of a pod are confined: they are in the network namespace of that pod and refer only to each other. They neither read
// files of the host nor change interfaces that the runtime has created.

const (
	// maxKeys bounds the keys that one pod may want.
	maxKeys = 64
	// maxText bounds an annotation in bytes; the API server allows 256 KiB for all annotations of an object.
	maxText = 256 << 10
	// maxIntentText bounds the map of a PodIntent in bytes; etcd allows 1.5 MiB for an object.
	maxIntentText = 1 << 20
	// maxLocal bounds a local name in bytes.
	maxLocal = 63
)

var (
	// podKinds are the kinds that pods may want.
	podKinds = []string{models.KindInterface, models.KindAddress, models.KindRoute, models.KindRule, models.KindNeighbor, models.KindNexthop,
		models.KindFDB, models.KindQdisc, models.KindMirror, models.KindNftables, models.KindSysctl}
	// podLinks are the types of links that pods may want. Other types read keys from files of the
	// host, take over links of others, or create devices for processes.
	podLinks = []string{"bridge", "dummy", "ifb", "ipvlan", "macvlan", "veth", "vlan", "vrf", "vxlan"}
	// podSysctls are patterns for path.Match of the settings that pods may want. Those without an
	// interface are the network settings in the list of safe sysctls of Kubernetes.
	podSysctls = []string{"net.ipv4.conf.IFNAME.*", "net.ipv6.conf.IFNAME.*", "net.ipv4.neigh.IFNAME.*", "net.ipv6.neigh.IFNAME.*",
		"net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ping_group_range",
		"net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_keepalive_time",
		"net.ipv4.tcp_rmem", "net.ipv4.tcp_syncookies", "net.ipv4.tcp_wmem"}

	// localName matches the names in an annotation. They have no dots, so that no two pods have equal keys.
	localName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_-]{0,62}$`)
)

// Decoder decodes a value and applies the policy of the agent for values that others write.
type Decoder func(key string, data []byte) (proto.Message, error)

// text is a map of local keys to values in YAML or JSON.
type text struct {
	data  string
	name  string // for errors
	limit int    // in bytes
	// place names a key in errors.
	place func(key string, line int) string
}

// valuesOf returns the values that a pod wants by its annotation. It returns an error if the annotation cannot be read
// as a whole. An error in one value makes only that value invalid.
func valuesOf(p *Pod, decode Decoder) (intent.Values, error) {
	if strings.TrimSpace(p.Intent) == "" {
		return nil, nil
	}
	return p.decode(text{p.Intent, IntentAnnotation, maxText, func(_ string, line int) string {
		return fmt.Sprintf("%s:%d", IntentAnnotation, line)
	}}, decode)
}

// decode returns the values of a text. It returns an error if the text cannot be read as a whole.
func (p *Pod) decode(t text, decode Decoder) (intent.Values, error) {
	if p.HostNetwork {
		return nil, errors.New("the pod uses the network of the host (hostNetwork)")
	}
	if len(t.data) > t.limit {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are allowed", t.name, len(t.data), t.limit)
	}
	docs, err := file.DecodeMap([]byte(t.data), t.name)
	if err != nil {
		return nil, err
	}
	if len(docs) > maxKeys {
		return nil, fmt.Errorf("%s has %d keys; at most %d are allowed", t.name, len(docs), maxKeys)
	}
	values := intent.Values{}
	for _, d := range docs {
		kind, local, ok := strings.Cut(d.Key, "/")
		if !ok || !localName.MatchString(local) {
			return nil, fmt.Errorf("%s: a key is <kind>/<name>, such as interface/net1; the name has letters, digits, - and _, at most 63",
				t.place(d.Key, d.Line))
		}
		if _, err := models.KindByName(kind); err != nil {
			return nil, fmt.Errorf("%s: %w", t.place(d.Key, d.Line), err)
		}
		key := scheduler.Key(kind + "/" + p.keyName(local))
		if _, twice := values[key]; twice {
			values[key] = intent.Wanted(nil, scheduler.Invalid("", "written more than once in %s; keep one", t.name))
			continue
		}
		values[key] = intent.Wanted(p.value(kind, local, d.JSON, decode))
	}
	return values, nil
}

// keyName returns the name of the key for a local name.
func (p *Pod) keyName(local string) string { return p.keyBase() + "." + local }

// localKey returns a key of the pod with its local name.
func (p *Pod) localKey(k scheduler.Key) string {
	return strings.Replace(string(k), p.keyName(""), "", 1)
}

// keyBase returns the common prefix of the names of all keys of the pod: pod.<namespace>.<name>, or pod.<digest> if
// that is too long for a key.
func (p *Pod) keyBase() string {
	base := "pod." + p.Namespace + "." + p.Name
	if len(base)+1+maxLocal > models.MaxName {
		return fmt.Sprintf("pod.%x", sha256.Sum256([]byte(p.Path())))
	}
	return base
}

// value decodes one value, and sets its namespace and its references to those of the pod.
func (p *Pod) value(kind, local string, data []byte, decode Decoder) (proto.Message, error) {
	if !slices.Contains(podKinds, kind) {
		return nil, invalid("", "pods cannot want values of the kind %s; they can want %s", kind, strings.Join(podKinds, ", "))
	}
	msg, err := models.DecodeKind(kind, data)
	if err != nil {
		return nil, err
	}
	if err := confined(msg); err != nil {
		return nil, err
	}
	models.RenameReferences(msg, func(kind, name string) string {
		switch {
		case kind == models.KindIPClaim:
			err = invalid("", "claim %q: pods cannot want claims of addresses", name)
		case !localName.MatchString(name):
			err = invalid("", "%q is no name of a value of this pod", name)
		}
		return p.keyName(name)
	})
	if err != nil {
		return nil, err
	}
	in := &models.Namespace{In: &models.Namespace_Pod{Pod: p.runtimeName()}}
	switch v := msg.(type) {
	case *models.Interface:
		v.Namespace = in
		if v.HostName == "" {
			v.HostName = local
		}
	case *models.Nftables:
		v.Namespace = in
		if v.Table == "" {
			v.Table = local
		}
	case *models.Route:
		if v.GetInterface() == "" && len(v.GetNexthops()) == 0 && v.GetNexthop() == "" {
			v.Namespace = in
		}
	case *models.Nexthop:
		if v.GetInterface() == "" {
			v.Namespace = in
		}
	case *models.Rule:
		v.Namespace = in
	case *models.Sysctl:
		if v.GetInterface() == "" {
			v.Namespace = in
		}
	}
	return decode(kind+"/"+p.keyName(local), models.Encode(msg))
}

// confined returns an error for a value that reaches out of the pod.
func confined(msg proto.Message) error {
	m := msg.ProtoReflect()
	if at := namespaceIn(m); at != "" {
		return invalid(at, "the values of a pod are in its own network namespace; leave it out")
	}
	if adopt := m.Descriptor().Fields().ByName("adopt"); adopt != nil && m.Get(adopt).Bool() {
		return invalid("adopt", "pods cannot take over what others have made")
	}
	switch v := msg.(type) {
	case *models.Interface:
		link := m.WhichOneof(m.Descriptor().Oneofs().ByName("link"))
		if link == nil {
			return nil // the decoder reports it
		}
		if !slices.Contains(podLinks, string(link.Name())) {
			return invalid(string(link.Name()), "pods cannot want links of this type; they can want %s", strings.Join(podLinks, ", "))
		}
	case *models.Sysctl:
		if !slices.ContainsFunc(podSysctls, func(pattern string) bool { ok, _ := path.Match(pattern, v.GetKey()); return ok }) {
			return invalid("key", "pods cannot set %s; they can set %s", v.GetKey(), strings.Join(podSysctls, ", "))
		}
		if strings.Contains(v.GetKey(), ".IFNAME.") && v.GetInterface() == "" {
			return invalid("interface", "is needed for a setting of an interface: the name of an interface of this pod")
		}
	}
	return nil
}

// namespaceIn returns the field of a message that names a network namespace, or "".
func namespaceIn(m protoreflect.Message) (at string) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		var below []protoreflect.Message
		switch {
		case f.Kind() != protoreflect.MessageKind || f.IsMap():
		case f.IsList():
			for i := range v.List().Len() {
				below = append(below, v.List().Get(i).Message())
			}
		default:
			below = append(below, v.Message())
		}
		for _, b := range below {
			if _, is := b.Interface().(*models.Namespace); is {
				at = string(f.Name())
			} else if inner := namespaceIn(b); inner != "" {
				at = string(f.Name()) + "." + inner
			}
		}
		return at == ""
	})
	return at
}

func invalid(field, format string, args ...any) error {
	return &models.InvalidError{Fields: []models.FieldError{{Field: field, Error: fmt.Sprintf(format, args...)}}}
}
