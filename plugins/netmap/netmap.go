package netmap

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/layout"
	"github.com/plumb-net/plumb/scheduler"
)

// Mark tells how something differs from what it is compared with.
type Mark string

// The marks. Broken is what is in order now and would not be so.
const (
	Created Mark = "created"
	Changed Mark = "changed"
	Removed Mark = "removed"
	Broken  Mark = "broken"
)

// Item is a key to be drawn.
type Item struct {
	scheduler.Status
	Mark Mark
}

// Map is the drawing.
type Map struct {
	Width, Height float64
	Boxes         []Box
	Lines         []Line
}

// Box is a key, a place in which keys are, or both.
type Box struct {
	layout.Rect
	// ID is the key, or the name of a place that has none.
	ID     string
	Parent string // ID of the box around it; empty: none
	Key    string // empty of places without a key
	Kind   string // of the key, or "place"
	Title  string
	Detail string
	State  string // empty of places without a key
	Reason string
	Mark   Mark
}

// Line joins two boxes.
type Line struct {
	From, To string // IDs
	Kind     string // cable, master, parent, or need, which is one that is not satisfied
	Why      string
	// Satisfied: both ends are there.
	Satisfied bool
	Mark      Mark
	Points    []layout.Point
}

// The places that have no key.
const (
	host      = "host"
	elsewhere = "elsewhere" // what is in no namespace, or in none that is known
	kindPlace = "place"
)

var titles = map[string]string{host: "this host", elsewhere: "in no namespace"}

// foldFrom is how many keys of a kind in one place are drawn one by one. Of more, those that
// are in order are one box.
const foldFrom = 40

// Draw draws the items, whose derived statuses are looked at as well.
func Draw(items []Item) Map {
	d := drawing{keys: map[string]*Item{}, boxes: map[string]*Box{}, containers: map[string]string{}, named: map[string]bool{}}
	for _, it := range items {
		d.add(it)
	}
	d.order = sorted(d.keys)
	for _, k := range d.order {
		if !d.named[k] {
			d.place(k)
		}
	}
	d.order = slices.DeleteFunc(d.order, func(k string) bool { return d.named[k] })
	d.fold()
	d.connect()
	return d.lay()
}

// drawing is a map in the making.
type drawing struct {
	keys  map[string]*Item
	order []string // of keys
	boxes map[string]*Box
	lines []Line
	// containers are the boxes of containers by their ids and names.
	containers map[string]string
	// named are the links of the host that an interface stands for.
	named map[string]bool
}

func (d *drawing) add(it Item) {
	d.keys[string(it.Key)] = &it
	if v, ok := it.value().(*models.Interface); ok && v.GetNamespace() == nil {
		_, name, _ := strings.Cut(string(it.Key), "/")
		d.named[models.HostLinkKey(cmp.Or(v.GetHostName(), name))] = true
	}
	if c, ok := it.value().(*models.Container); ok {
		place := string(it.Key)
		if c.GetMicroservice() != "" {
			place = models.MicroserviceKey(c.GetMicroservice())
		}
		d.containers[c.GetContainerId()], d.containers[c.GetName()] = place, place
	}
	for _, c := range it.Derived {
		if d.keys[string(c.Key)] == nil {
			d.add(Item{Status: c, Mark: it.Mark})
		}
	}
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// value is what is said of the key: the intent, or else what is there.
func (it *Item) value() any {
	if it.Desired != nil {
		return it.Desired
	}
	return it.Actual
}

// place makes the box of a key, and those around it.
func (d *drawing) place(key string) *Box {
	if b := d.boxes[key]; b != nil {
		return b
	}
	it := d.keys[key]
	kind, name, _ := strings.Cut(key, "/")
	b := &Box{ID: key, Key: key, Kind: kind, Title: name, State: "absent"}
	d.boxes[key] = b
	if it == nil { // a place that is named, and not there
		return b
	}
	b.State, b.Reason, b.Mark = it.State.String(), it.Reason, it.Mark
	around, title, detail := d.look(key, it)
	if b.Parent, b.Detail = around, detail; title != "" {
		b.Title = title
	}
	if title := titles[b.Parent]; title == "" && b.Parent != "" {
		d.place(b.Parent)
	} else if b.Parent != "" && d.boxes[b.Parent] == nil {
		d.boxes[b.Parent] = &Box{ID: b.Parent, Kind: kindPlace, Title: title}
	}
	return b
}

// look tells in which box a key belongs, and what is written on its own. A place is in
// none.
func (d *drawing) look(key string, it *Item) (around, title, detail string) {
	switch v := it.value().(type) {
	case *models.Interface:
		return d.namespace(v.GetNamespace()), "", linkText(v, strings.TrimPrefix(key, models.KindInterface+"/"))
	case *models.Address:
		text := v.GetAddress()
		if text == "" {
			text = models.ClaimPrefix + v.GetClaim()
		}
		return d.onInterface(v.GetInterface()), text, ""
	case *models.Forward:
		return d.onInterface(v.GetInterface()), "forwards", ""
	case *models.Route:
		return d.routePlace(v), "", routeText(v)
	case *models.Nexthop:
		if v.GetInterface() != "" {
			return d.besides(v.GetInterface()), "", words("encap", v.GetEncap().Text(), "via", v.GetGateway(), "dev", v.GetInterface())
		}
		return d.namespace(v.GetNamespace()), "", fmt.Sprint(v.GetId())
	case *models.Neighbor:
		return d.besides(v.GetInterface()), "", words("", v.GetAddress(), "at", v.GetMacAddress())
	case *models.FDB:
		return d.besides(v.GetInterface()), "", words("", v.GetMacAddress(), "at", v.GetAddress())
	case *models.Qdisc:
		return d.onInterface(v.GetInterface()), v.Type(), ""
	case *models.Mirror:
		return d.besides(v.GetInterface()), "", words("copies of", v.GetInterface(), "to", v.GetTo())
	case *models.Rule:
		return d.namespace(v.GetNamespace()), "", words("from", v.GetFrom(), "to", v.GetTo())
	case *models.Nftables:
		return d.namespace(v.GetNamespace()), "", words("", v.GetFamily(), "", v.GetTable())
	case *models.Sysctl:
		return d.namespace(v.GetNamespace()), "", words("", v.GetKey(), "=", v.GetValue())
	case *models.Proxy:
		return d.namespace(v.GetListen().GetNamespace()), "", words("", v.GetListen().GetAddress(), "to", v.GetForward().GetAddress())
	case *models.HostLink:
		return host, "", v.GetType()
	case *models.NetNS:
		return "", "", ""
	case *models.Microservice:
		return "", "", v.GetImage()
	case *models.Container:
		if v.GetMicroservice() != "" {
			return models.MicroserviceKey(v.GetMicroservice()), "container " + v.GetName(), v.GetState()
		}
		return "", v.GetName(), words("", v.GetImage(), "", v.GetState())
	}
	// What a plan would derive has no value yet.
	if at, ok := strings.CutPrefix(key, models.KindAddress+"/"); ok {
		if name, addr, _ := strings.Cut(at, "/"); d.keys[models.InterfaceKey(name)] != nil {
			return models.InterfaceKey(name), addr, ""
		}
	}
	if strings.HasPrefix(key, "namespace/") { // observed: of a process, a path or a pod
		return "", "", ""
	}
	return elsewhere, "", ""
}

// namespace is the box of a namespace.
func (d *drawing) namespace(n *models.Namespace) string {
	if name := n.GetContainer(); name != "" {
		if place := d.containers[name]; place != "" {
			return place
		}
		return models.KindContainer + "/" + models.Escape(name)
	}
	if key := n.Key(); key != "" {
		return key
	}
	return host
}

// onInterface is the box of an interface, for what is on it.
func (d *drawing) onInterface(name string) string {
	if key := models.InterfaceKey(name); d.keys[key] != nil {
		return key
	}
	return elsewhere
}

// besides is the box around an interface, for what goes by it.
func (d *drawing) besides(name string) string {
	key := models.InterfaceKey(name)
	if d.keys[key] == nil {
		return elsewhere
	}
	return d.place(key).Parent
}

func (d *drawing) routePlace(v *models.Route) string {
	switch {
	case v.GetInterface() != "":
		return d.besides(v.GetInterface())
	case len(v.GetNexthops()) > 0:
		return d.besides(v.GetNexthops()[0].GetInterface())
	case v.GetNexthop() != "":
		if key := models.NexthopKey(v.GetNexthop()); d.keys[key] != nil {
			return d.place(key).Parent
		}
		return elsewhere
	}
	return d.namespace(v.GetNamespace())
}

// words joins pairs of a word and what it says something of, without those that say
// nothing.
func words(pairs ...string) string {
	var out []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out = append(out, strings.TrimSpace(pairs[i]+" "+pairs[i+1]))
		}
	}
	return strings.Join(out, " ")
}

func routeText(v *models.Route) string {
	t := v.GetType()
	if t == "unicast" {
		t = ""
	}
	dev := v.GetInterface()
	if n := len(v.GetNexthops()); n > 0 {
		dev = fmt.Sprintf("%d next hops", n)
	}
	return words("", t, "", v.GetDestination(), "encap", v.GetEncap().Text(), "via", v.GetGateway(), "dev", dev, "nexthop", v.GetNexthop())
}

// linkText is the type of a link, with what tells it from others of its type.
func linkText(v *models.Interface, name string) string {
	kind := ""
	m := v.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("link")); f != nil {
		kind = string(f.Name())
	}
	switch {
	case v.GetVlan() != nil:
		kind = fmt.Sprintf("vlan %d", v.GetVlan().GetId())
	case v.GetVxlan().GetExternal(), v.GetGeneve().GetExternal(), v.GetGre().GetExternal(), v.GetGretap().GetExternal():
		kind += " external"
	case v.GetVxlan() != nil:
		kind = fmt.Sprintf("vxlan %d", v.GetVxlan().GetVni())
	case v.GetGeneve() != nil:
		kind = fmt.Sprintf("geneve %d", v.GetGeneve().GetVni())
	case v.GetVrf() != nil:
		kind = fmt.Sprintf("vrf, table %d", v.GetVrf().GetTable())
	}
	if h := v.GetHostName(); h != "" && h != name {
		return words("", kind, "", h)
	}
	return kind
}

// fold puts those of many keys of one kind in one place that are in order into one box.
func (d *drawing) fold() {
	type group struct{ parent, kind string }
	many := map[group][]string{}
	inside := map[string]bool{}
	for _, k := range d.order {
		inside[d.boxes[k].Parent] = true
	}
	for _, k := range d.order {
		if b := d.boxes[k]; b.Kind != models.KindInterface && b.Parent != "" && !inside[k] && b.Mark == "" && inOrder(b.State) {
			g := group{b.Parent, b.Kind}
			many[g] = append(many[g], k)
		}
	}
	for g, keys := range many {
		if len(keys) <= foldFrom {
			continue
		}
		all := &Box{ID: g.parent + " " + g.kind, Parent: g.parent, Kind: g.kind, Title: fmt.Sprintf("%d × %s", len(keys), g.kind), Detail: "in order"}
		d.boxes[all.ID] = all
		for _, k := range keys {
			delete(d.boxes, k)
		}
	}
}

func inOrder(state string) bool { return state == "configured" || state == "observed" }

// connect makes the lines. A need is not drawn beside a cable or the like that joins the same.
func (d *drawing) connect() {
	for _, k := range d.order {
		if v, ok := d.keys[k].value().(*models.Interface); ok {
			d.connectLink(k, v)
		}
	}
	joined := map[[2]string]bool{}
	for _, l := range d.lines {
		joined[[2]string{l.From, l.To}], joined[[2]string{l.To, l.From}] = true, true
	}
	for _, k := range d.order {
		for _, m := range d.keys[k].Missing {
			if !joined[[2]string{k, m.Need}] {
				d.line(k, m.Need, "need", m.Why)
			}
		}
	}
}

func (d *drawing) connectLink(key string, v *models.Interface) {
	if peer := v.GetVeth().GetPeer(); peer != "" {
		other := models.InterfaceKey(peer)
		back, _ := d.valueOf(other).(*models.Interface)
		if key < other || back.GetVeth().GetPeer() != strings.TrimPrefix(key, models.KindInterface+"/") {
			d.line(key, other, "cable", "")
		}
	}
	if v.GetMaster() != "" {
		d.line(key, models.InterfaceKey(v.GetMaster()), "master", "")
	}
	m := v.ProtoReflect()
	if f := m.WhichOneof(m.Descriptor().Oneofs().ByName("link")); f != nil {
		if p := f.Message().Fields().ByName("parent"); p != nil {
			if name := m.Get(f).Message().Get(p).String(); name != "" {
				d.line(key, models.InterfaceKey(name), "parent", "")
			}
		}
	}
}

func (d *drawing) valueOf(key string) any {
	if it := d.keys[key]; it != nil {
		return it.value()
	}
	return nil
}

// line joins the boxes of two keys, if both have one and neither is in the other.
func (d *drawing) line(from, to, kind, why string) {
	a, b := d.boxes[from], d.boxes[to]
	if a == nil || b == nil || a == b || d.isIn(a, b) || d.isIn(b, a) {
		return
	}
	l := Line{From: from, To: to, Kind: kind, Why: why, Satisfied: kind != "need" && inOrder(a.State) && inOrder(b.State)}
	for _, m := range []Mark{Removed, Created, Broken} {
		if a.Mark == m || b.Mark == m {
			l.Mark = m
			break
		}
	}
	d.lines = append(d.lines, l)
}

func (d *drawing) isIn(inner, outer *Box) bool {
	for inner != nil {
		if inner == outer {
			return true
		}
		inner = d.boxes[inner.Parent]
	}
	return false
}

// Measures of boxes, in pixels, for a font of 12 pixels.
const (
	letter    = 7.0
	sign      = 14 // at the end of a title
	oneLine   = 22
	twoLines  = 38
	placeLine = 2 // more, for the title of a place
)

// rank is the order of what is in a place.
var rank = map[string]int{models.KindContainer: -1, models.KindInterface: 0, models.KindHostLink: 9}

// lay gives all their places. In a place the interfaces come first.
func (d *drawing) lay() Map {
	within := map[string][]*Box{}
	for _, id := range sorted(d.boxes) {
		b := d.boxes[id]
		within[b.Parent] = append(within[b.Parent], b)
	}
	var out Map
	var boxes []layout.Box
	var add func(parent string)
	add = func(parent string) {
		inner := within[parent]
		slices.SortStableFunc(inner, func(a, b *Box) int { return d.compare(a, b) })
		for i, b := range inner {
			filled := len(within[b.ID]) > 0
			title, detail := width(b.Title), width(b.Detail)
			l := layout.Box{ID: b.ID, Parent: parent}
			switch {
			case parent == "":
				l.Width, l.Height = max(title+sign, detail, 80), oneLine+placeLine
				if b.Detail != "" {
					l.Height = twoLines + placeLine
				}
			case b.Kind == models.KindInterface:
				l.Width, l.Height = max(title+sign, detail, 60), twoLines
			default:
				l.Width, l.Height = title+detail+sign, oneLine
			}
			l.Width += 20
			if parent == "" {
				l.Break = i > 0 && d.group(b) != d.group(inner[i-1])
			} else {
				l.Break = i > 0 && (b.Kind == models.KindInterface) != (inner[i-1].Kind == models.KindInterface)
			}
			boxes = append(boxes, l)
			out.Boxes = append(out.Boxes, *b)
			if filled {
				add(b.ID)
			}
		}
	}
	add("")
	lines := make([]layout.Line, len(d.lines))
	for i, l := range d.lines {
		lines[i] = layout.Line{From: l.From, To: l.To}
	}
	p := layout.Place(boxes, lines)
	for i, r := range p.Boxes {
		out.Boxes[i].Rect = r
	}
	for i, ps := range p.Lines {
		d.lines[i].Points = ps
	}
	out.Width, out.Height, out.Lines = p.Width, p.Height, d.lines
	return out
}

func width(text string) float64 { return letter * float64(utf8.RuneCountInString(text)) }

// group is 0 of the host, 1 of namespaces, and 2 of the rest.
func (d *drawing) group(b *Box) int {
	switch b.ID {
	case host:
		return 0
	case elsewhere:
		return 2
	}
	return 1
}

func (d *drawing) compare(a, b *Box) int {
	if a.Parent == "" {
		if c := d.group(a) - d.group(b); c != 0 {
			return c
		}
	}
	ra, rb := rankOf(a), rankOf(b)
	if ra != rb {
		return ra - rb
	}
	return strings.Compare(a.ID, b.ID)
}

func rankOf(b *Box) int {
	if r, ok := rank[b.Kind]; ok {
		return r
	}
	return 1
}
