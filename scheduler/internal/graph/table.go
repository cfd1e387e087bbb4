package graph

import "hash/maphash"

// table finds nodes by their keys. Beside a Go map it finds and inserts in one
// go, keeps no second copy of the keys, and grows in parts: what a growth
// costs is the same however many nodes there are.
type table struct {
	seed  maphash.Seed
	parts [1 << partBits]part
	count int
}

// part is one open-addressed hash table with linear probing.
type part struct {
	slots []slot // a power of two of them
	used  int
}

type slot struct {
	hash uint64
	n    *Node // nil: free
}

const (
	partBits = 8
	minSlots = 8
)

func newTable() *table { return &table{seed: maphash.MakeSeed()} }

func (t *table) find(k Key) (p *part, hash uint64, n *Node) {
	hash = maphash.String(t.seed, string(k))
	p = &t.parts[hash>>(64-partBits)]
	return p, hash, p.get(hash, k)
}

func (t *table) get(k Key) *Node {
	_, _, n := t.find(k)
	return n
}

// put adds a node whose key is not there; find has told where.
func (t *table) put(p *part, hash uint64, n *Node) {
	if (p.used+1)*4 > len(p.slots)*3 {
		p.resize(max(2*len(p.slots), minSlots))
	}
	p.insert(slot{hash, n})
	t.count++
}

func (t *table) remove(k Key) {
	p, hash, n := t.find(k)
	if n == nil {
		return
	}
	p.remove(hash, n)
	t.count--
}

// all calls f for every node until it returns false. f may change the nodes
// but not which there are.
func (t *table) all(f func(*Node) bool) {
	for i := range t.parts {
		for _, s := range t.parts[i].slots {
			if s.n != nil && !f(s.n) {
				return
			}
		}
	}
}

// part calls f for every node of one part, and returns how many there are.
func (t *table) part(i int, f func(*Node)) int {
	for _, s := range t.parts[i].slots {
		if s.n != nil {
			f(s.n)
		}
	}
	return t.parts[i].used
}

// grow makes room for n nodes more.
func (t *table) grow(n int) {
	size := minSlots
	for each := (t.count + n) >> partBits; size*5 < each*8; { // some get more than others
		size *= 2
	}
	for i := range t.parts {
		if p := &t.parts[i]; len(p.slots) < size && size > minSlots {
			p.resize(size)
		}
	}
}

func (p *part) get(hash uint64, k Key) *Node {
	if len(p.slots) == 0 {
		return nil
	}
	mask := len(p.slots) - 1
	for i := int(hash) & mask; ; i = (i + 1) & mask {
		s := &p.slots[i]
		switch {
		case s.n == nil:
			return nil
		case s.hash == hash && s.n.Key == k:
			return s.n
		}
	}
}

func (p *part) insert(s slot) {
	mask := len(p.slots) - 1
	i := int(s.hash) & mask
	for p.slots[i].n != nil {
		i = (i + 1) & mask
	}
	p.slots[i] = s
	p.used++
}

// remove frees a slot and moves up those behind it that would not be found any more.
func (p *part) remove(hash uint64, n *Node) {
	mask := len(p.slots) - 1
	i := int(hash) & mask
	for p.slots[i].n != n {
		i = (i + 1) & mask
	}
	for j := (i + 1) & mask; p.slots[j].n != nil; j = (j + 1) & mask {
		home := int(p.slots[j].hash) & mask
		if (j-home)&mask >= (j-i)&mask {
			p.slots[i], i = p.slots[j], j
		}
	}
	p.slots[i] = slot{}
	p.used--
	if len(p.slots) > minSlots && p.used*8 < len(p.slots) {
		p.resize(len(p.slots) / 2)
	}
}

func (p *part) resize(size int) {
	old := p.slots
	p.slots, p.used = make([]slot, size), 0
	for _, s := range old {
		if s.n != nil {
			p.insert(s)
		}
	}
}
