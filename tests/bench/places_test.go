package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/plugins/netlink/netlinktest"
)

// BenchmarkPlaces makes 2,000 ends of cables in 200 namespaces, ten in each: the two ends of a
// cable are in two of them, both up and marked. It ends when the last key is told to be
// configured; the floor makes the same in place.
func BenchmarkPlaces(b *testing.B) {
	const places, cables = 200, 1000
	h := newHost(b)
	f := floorOf(b, places)
	for i := range places {
		netlinktest.Mount(b, filepath.Join(h.dir, "netns", fmt.Sprintf("n%d", i)))
	}
	var ops []clientv3.Op
	for i := range cables {
		for _, end := range [][3]string{{"a", "b", fmt.Sprint(i % places)}, {"b", "a", fmt.Sprint((i + 1) % places)}} {
			ops = append(ops, put(fmt.Sprintf("interface/%s%d", end[0], i),
				fmt.Sprintf(`{"veth":{"peer":"%s%d"},"namespace":{"netns":"n%s"}}`, end[1], i, end[2])))
		}
	}
	var made, floorMade []time.Duration
	for range b.N {
		last := h.follow("interface/", 2*cables, "configured")
		_, put := h.write(ops...)
		made = append(made, last().Sub(put))
		h.write(clientv3.OpDelete(config("interface/"), clientv3.WithPrefix()))
		h.told("interface/", 0)
		floorMade = append(floorMade, f.cables(cables))
	}
	b.ReportMetric(ms(median(made)), "create-ms")
	b.ReportMetric(ms(median(floorMade)), "floor-create-ms")
	b.ReportMetric(0, "ns/op")
	verdict(b, "2,000 veth ends in 200 namespaces, put to configured", ratio(made, floorMade), 1.3, "× floor")
}

// places is the plain program with so many namespaces.
type places struct {
	plain []*plain
	fd    []int
}

func floorOf(b testing.TB, n int) (p places) {
	for range n {
		ns := netlinktest.New(b)
		file, err := os.Open(ns.Path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { file.Close() })
		p.plain, p.fd = append(p.plain, newPlain(b, ns)), append(p.fd, int(file.Fd()))
	}
	return p
}

func (p places) cables(n int) time.Duration {
	const group = 7
	begin := time.Now()
	for i := range n {
		here, there := i%len(p.plain), (i+1)%len(p.plain)
		a, b := uint32(100+2*i), uint32(101+2*i)
		p.plain[here].veth(a, fmt.Sprintf("a%d", i), b, fmt.Sprintf("b%d", i), group, 0, p.fd[there])
		p.plain[here].mark(a, fmt.Sprintf("plumb:bench:interface/a%d", i))
		p.plain[there].mark(b, fmt.Sprintf("plumb:bench:interface/b%d", i))
	}
	took := time.Since(begin)
	for i := 0; i < len(p.plain); i += 2 { // each cable has one end in such a one
		p.plain[i].deleteGroup(group)
	}
	return took
}
