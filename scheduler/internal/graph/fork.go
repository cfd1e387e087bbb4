package graph

// Fork returns a copy of the graph that shares no node with it, and a function that finds the
// copy of a node. Values are shared: they are immutable. kindOf finds the kinds of the copy,
// and kind the one that takes the place of another. Nothing may be left to evaluate. halt is
// asked all the time; if it returns true Fork ends, and returns nil.
//
// The copy is the same in every order that counts: of edges, of claimants, of folders.
func (g *Graph) Fork(kindOf func(Key) *Kind, kind func(*Kind) *Kind, halt func() bool) (*Graph, func(*Node) *Node) {
	f := &fork{kind: kind, to: New(kindOf), dirs: make(map[*Dir]*Dir, len(g.dirs)), dropped: map[*Node]*Node{},
		prefixes: map[*Prefix]*Prefix{}, claims: make(map[*Claim]*Claim, len(g.claims)), listed: map[*Edge]*Edge{}}
	f.nodes, f.edges = make([]Node, g.nodes.count), make([]Edge, 0, slab)
	if !f.copyNodes(g, halt) || !f.copyEdges(halt) {
		return nil, nil
	}
	t := f.to
	t.CheckTry, t.Cause, t.together = g.CheckTry, g.Cause, g.together
	t.claims = make(map[string]*Claim, len(g.claims))
	for id, c := range g.claims {
		t.claims[id] = f.claim(c)
	}
	for n, c := range g.changes {
		t.changes[f.node(n)] = c
	}
	for _, e := range g.cycles {
		t.cycles = append(t.cycles, f.listed[e])
	}
	return t, f.node
}

// slab is how many edges are allocated at a time.
const slab = 1024

type fork struct {
	to       *Graph
	kind     func(*Kind) *Kind
	nodes    []Node // room for copies
	edges    []Edge
	dirs     map[*Dir]*Dir
	prefixes map[*Prefix]*Prefix
	claims   map[*Claim]*Claim
	dropped  map[*Node]*Node
	listed   map[*Edge]*Edge // of Graph.cycles
}

// node is the copy of a node. One that was dropped is only somebody's past.
func (f *fork) node(n *Node) *Node {
	if n == nil {
		return nil
	}
	if !n.Dropped() {
		return f.dirs[n.dir].nodes[n.dirIdx]
	}
	if f.dropped[n] == nil {
		f.dropped[n] = &Node{Key: n.Key, dirIdx: -1, Source: NoSource}
	}
	return f.dropped[n]
}

// copyNodes copies folders and nodes, which point to nodes of the original yet.
func (f *fork) copyNodes(g *Graph, halt func() bool) bool {
	for path, d := range g.dirs {
		f.dirs[d] = &Dir{path: path, nodes: make([]*Node, len(d.nodes))}
		f.to.dirs[path] = f.dirs[d]
	}
	for d, c := range f.dirs {
		c.parent = f.dirs[d.parent]
		if d.subs != nil {
			c.subs = make(map[string]*Dir, len(d.subs))
		}
		for path, sub := range d.subs {
			c.subs[path] = f.dirs[sub]
		}
		for i, n := range d.nodes {
			if halt() {
				return false
			}
			m := &f.nodes[0]
			f.nodes = f.nodes[1:]
			*m = *n
			m.dir, c.nodes[i] = c, m
			if len(n.In) > 0 {
				m.In = make([]*Edge, len(n.In))
			}
		}
		for _, p := range d.watches {
			c.watches = append(c.watches, f.prefix(p))
		}
		for _, p := range d.also {
			c.also = append(c.also, f.prefix(p))
		}
	}
	t := f.to.nodes
	t.seed, t.count = g.nodes.seed, g.nodes.count
	for i := range g.nodes.parts {
		from, to := &g.nodes.parts[i], &t.parts[i]
		to.used, to.slots = from.used, make([]slot, len(from.slots))
		for j, s := range from.slots {
			if s.n != nil {
				to.slots[j] = slot{s.hash, f.node(s.n)}
			}
		}
	}
	return true
}

func (f *fork) prefix(p *Prefix) *Prefix {
	if p == nil {
		return nil
	}
	c := f.prefixes[p]
	if c == nil {
		c = &Prefix{prefix: p.prefix, dir: f.dirs[p.dir], in: make([]*Edge, len(p.in)), unsure: p.unsure}
		for _, folder := range p.also {
			c.also = append(c.also, f.dirs[folder])
		}
		f.prefixes[p] = c
	}
	return c
}

// copyEdges copies what nodes point to.
func (f *fork) copyEdges(halt func() bool) bool {
	for d, c := range f.dirs {
		for i, n := range d.nodes {
			if halt() {
				return false
			}
			m := c.nodes[i]
			m.Kind, m.Base, m.Via = f.kind(n.Kind), f.node(n.Base), f.node(n.Via)
			if len(n.Out) > 0 {
				m.Out = make([]*Edge, len(n.Out))
			}
			for i, e := range n.Out {
				m.Out[i] = f.edge(e, m)
			}
			if n.names != nil {
				m.names = &names{want: f.all(n.names.want), hold: f.all(n.names.hold), lost: f.claim(n.names.lost)}
			}
			if n.X != nil {
				x := *n.X
				x.Children = f.allNodes(n.X.Children)
				m.X = &x
			}
		}
	}
	return true
}

func (f *fork) edge(e *Edge, from *Node) *Edge {
	if len(f.edges) == cap(f.edges) {
		f.edges = make([]Edge, 0, slab)
	}
	f.edges = append(f.edges, *e)
	c := &f.edges[len(f.edges)-1]
	c.From, c.To, c.any = from, f.node(e.To), f.prefix(e.any)
	if e.fn != nil {
		fn := *e.fn
		fn.uses = f.node(fn.uses)
		c.fn = &fn
	}
	if c.any != nil {
		c.any.in[e.inIdx] = c
	} else {
		c.To.In[e.inIdx] = c
	}
	if e.is(listed) {
		f.listed[e] = c
	}
	return c
}

func (f *fork) claim(c *Claim) *Claim {
	if c == nil {
		return nil
	}
	d := f.claims[c]
	if d == nil {
		d = &Claim{Claim: c.Claim}
		f.claims[c] = d
		d.wanters, d.holders, d.owner = f.allNodes(c.wanters), f.allNodes(c.holders), f.node(c.owner)
	}
	return d
}

func (f *fork) all(cs []*Claim) []*Claim {
	if cs == nil {
		return nil
	}
	out := make([]*Claim, len(cs))
	for i, c := range cs {
		out[i] = f.claim(c)
	}
	return out
}

func (f *fork) allNodes(ns []*Node) []*Node {
	if ns == nil {
		return nil
	}
	out := make([]*Node, len(ns))
	for i, n := range ns {
		out[i] = f.node(n)
	}
	return out
}
