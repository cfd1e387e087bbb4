package graph

import (
	"slices"
	"strings"
)

// Dir is a folder of keys: all that share the text up to a slash. Folders make
// a tree, so a prefix is found without looking at any other key.
type Dir struct {
	path    string
	parent  *Dir
	nodes   []*Node
	subs    map[string]*Dir
	watches []*Prefix
	also    []*Prefix // that count the folder's own nodes beside those below another prefix
}

// Prefix is a set of needs for any key below a prefix.
type Prefix struct {
	prefix Key
	dir    *Dir
	also   []*Dir // whose own nodes count as well, none deeper
	in     []*Edge
	unsure int32 // members whose availability is Unsure
}

// split returns the folder part of a text, with its slash, and the rest.
func split(s string) (dir, rest string) {
	i := strings.LastIndexByte(s, '/') + 1
	return s[:i], s[i:]
}

func (g *store) dirOf(path string) *Dir {
	if d := g.dirs[path]; d != nil {
		return d
	}
	d := &Dir{path: path}
	g.dirs[path] = d
	if path != "" {
		up, _ := split(strings.TrimSuffix(path, "/"))
		d.parent = g.dirOf(up)
		if d.parent.subs == nil {
			d.parent.subs = map[string]*Dir{}
		}
		d.parent.subs[path] = d
	}
	if g.trying {
		g.undo(func() { g.pruneDir(d) })
	}
	return d
}

func (d *Dir) empty() bool { return len(d.nodes)+len(d.subs)+len(d.watches)+len(d.also) == 0 }

// pruneDir removes a folder that holds nothing, and those above it.
func (g *store) pruneDir(d *Dir) {
	for d != nil && d.path != "" && d.empty() && g.dirs[d.path] == d {
		delete(g.dirs, d.path)
		delete(d.parent.subs, d.path)
		d = d.parent
	}
}

func (g *store) enterDir(n *Node) {
	path, _ := split(string(n.Key))
	d := g.last // keys of a folder mostly come together
	if d == nil || d.path != path || len(d.nodes) == 0 {
		d = g.dirOf(path)
		g.last = d
	}
	n.dir, n.dirIdx = d, int32(len(d.nodes))
	d.nodes = Push(d.nodes, n)
}

func (g *store) leaveDir(n *Node) {
	d, last := n.dir, len(n.dir.nodes)-1
	moved := d.nodes[last]
	d.nodes[n.dirIdx], moved.dirIdx = moved, n.dirIdx
	d.nodes[last] = nil
	d.nodes = d.nodes[:last]
	n.dirIdx = -1
}

// Below yields every node whose key begins with the prefix, in no useful order.
func (g *store) Below(prefix Key, yield func(*Node) bool) bool {
	path, rest := split(string(prefix))
	d := g.dirs[path]
	if d == nil {
		return true
	}
	for _, n := range d.nodes {
		if strings.HasPrefix(string(n.Key), string(prefix)) && !yield(n) {
			return false
		}
	}
	for sub, s := range d.subs {
		if strings.HasPrefix(sub[len(path):], rest) && !s.walk(yield) {
			return false
		}
	}
	return true
}

func (d *Dir) walk(yield func(*Node) bool) bool {
	for _, n := range d.nodes {
		if !yield(n) {
			return false
		}
	}
	for _, s := range d.subs {
		if !s.walk(yield) {
			return false
		}
	}
	return true
}

// watch returns the any-of set for a prefix and some folders.
func (g *store) watch(prefix Key, also []Key) *Prefix {
	path, _ := split(string(prefix))
	d := g.dirOf(path)
	for _, p := range d.watches {
		if p.prefix == prefix && p.isAlsoIn(also) {
			return p
		}
	}
	p := &Prefix{prefix: prefix, dir: d}
	for _, folder := range also {
		p.also = append(p.also, g.dirOf(string(folder)))
	}
	g.members(p, func(n *Node) bool {
		if n.avail == Unsure {
			p.unsure++
		}
		return true
	})
	d.watches = append(d.watches, p)
	for _, folder := range p.also {
		folder.also = append(folder.also, p)
	}
	if g.trying {
		g.undo(func() { g.endWatch(p) })
	}
	return p
}

// isAlsoIn reports whether these are the folders whose own nodes count as well.
func (p *Prefix) isAlsoIn(folders []Key) bool {
	return slices.EqualFunc(p.also, folders, func(d *Dir, folder Key) bool { return d.path == string(folder) })
}

// has reports whether a node is a member of the any-of set.
func (p *Prefix) has(n *Node) bool {
	return strings.HasPrefix(string(n.Key), string(p.prefix)) || slices.Contains(p.also, n.dir)
}

// members yields every node of an any-of set, in no useful order.
func (g *store) members(p *Prefix, yield func(*Node) bool) bool {
	if !g.Below(p.prefix, yield) {
		return false
	}
	for _, folder := range p.also {
		for _, n := range folder.nodes {
			if !strings.HasPrefix(string(n.Key), string(p.prefix)) && !yield(n) {
				return false
			}
		}
	}
	return true
}

// Members yields every node that could be what an any-of edge needs.
func (g *store) Members(e *Edge, yield func(*Node) bool) bool { return g.members(e.any, yield) }

func (g *store) unwatch(p *Prefix) {
	if len(p.in) > 0 || g.trying {
		return
	}
	g.endWatch(p)
}

func (g *store) endWatch(p *Prefix) {
	p.dir.watches = without(p.dir.watches, p)
	for _, folder := range p.also {
		folder.also = without(folder.also, p)
		g.pruneDir(folder)
	}
	g.pruneDir(p.dir)
}

func without(ps []*Prefix, p *Prefix) []*Prefix {
	out := make([]*Prefix, 0, len(ps))
	for _, q := range ps {
		if q != p {
			out = append(out, q)
		}
	}
	return out
}

// watchesOf calls f for every any-of set that the node is a member of.
func (n *Node) watchesOf(f func(*Prefix)) {
	for d := n.dir; d != nil; d = d.parent {
		for _, p := range d.watches {
			if strings.HasPrefix(string(n.Key), string(p.prefix)) {
				f(p)
			}
		}
	}
	for _, p := range n.dir.also {
		if !strings.HasPrefix(string(n.Key), string(p.prefix)) {
			f(p)
		}
	}
}
