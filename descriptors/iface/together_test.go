package iface_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// calls counts the calls of the kernel about links.
type calls struct {
	kernel.Kernel
	add, set, read int
}

func (c *calls) AddLink(ns kernel.NS, s kernel.LinkSpec) (kernel.Link, error) {
	c.add++
	return c.Kernel.AddLink(ns, s)
}

func (c *calls) AddLinks(ns kernel.NS, s []kernel.LinkSpec) ([]kernel.Link, []error) {
	c.add += min(len(s), 1)
	return c.Kernel.AddLinks(ns, s)
}

func (c *calls) SetLink(ns kernel.NS, index int, p kernel.LinkPatch) error {
	c.set++
	return c.Kernel.SetLink(ns, index, p)
}

func (c *calls) SetLinks(ns kernel.NS, s []kernel.LinkChange) []error {
	c.set += min(len(s), 1)
	return c.Kernel.SetLinks(ns, s)
}

func (c *calls) Link(ns kernel.NS, name string) (kernel.Link, error) {
	c.read++
	return c.Kernel.Link(ns, name)
}

func (c *calls) LinkByIndex(ns kernel.NS, index int) (kernel.Link, error) {
	c.read++
	return c.Kernel.LinkByIndex(ns, index)
}

func (c *calls) LinksByName(ns kernel.NS, names []string) ([]kernel.Link, []error) {
	c.read += min(len(names), 1)
	return c.Kernel.LinksByName(ns, names)
}

func (c *calls) Links(ns kernel.NS) ([]kernel.Link, error) {
	c.read++
	return c.Kernel.Links(ns)
}

// together creates what is wanted, as the scheduler does what is due at once, and returns the
// errors.
func (b *bench) together(keys ...scheduler.Key) map[scheduler.Key]error {
	b.t.Helper()
	var ops []*op
	for _, k := range keys {
		v, _ := b.self.Wanted(k)
		ops = append(ops, &op{Key: k, Value: v})
	}
	b.kind.CreateBatch(b.t.Context(), ops)
	errs := map[scheduler.Key]error{}
	for _, o := range ops {
		if errs[o.Key] = o.Err; o.Err == nil {
			b.self.put(o.Key, o.Value, o.Meta)
		}
	}
	return errs
}

// Cables that are made together take a few calls of the kernel for each namespace. One that
// cannot be made, or is interrupted, changes nothing for the others.
func TestTogether(t *testing.T) {
	b := newBench(t, "blue", "red")
	b.make("br0", `{"bridge":{}}`)
	k := &calls{Kernel: b.Kernel}
	believed, wanted := b.self.in, b.self.want
	b.restartOn(k)
	b.self.in, b.self.want = believed, wanted
	const many = 40
	var first, second []scheduler.Key
	for i := range many {
		a, _ := b.want(fmt.Sprintf("a%d", i), fmt.Sprintf(`{"veth":{"peer":"b%d"},"master":"br0"}`, i))
		z, _ := b.want(fmt.Sprintf("b%d", i), fmt.Sprintf(`{"veth":{"peer":"a%d"},"namespace":{"netns":"%s"}}`, i, []string{"blue", "red"}[i%2]))
		first, second = append(first, a), append(second, z)
	}
	b.own.IP(t, "link add a3 type bridge") // of somebody else

	errs := b.together(first...)
	for k, err := range errs {
		if conflict := err != nil && strings.Contains(err.Error(), "is not ours"); conflict != (k == "interface/a3") || !conflict && err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if k.add != 1 || k.set != 1 || k.read > 2 { // whose a3 is
		t.Errorf("%d cables: %d calls to make them, %d to change them, %d readings", many, k.add, k.set, k.read)
	}
	k.add, k.set, k.read = 0, 0, 0
	there := slices.Delete(slices.Clone(second), 3, 4)
	for k, err := range b.together(there...) {
		if err != nil {
			t.Errorf("%s: %v", k, err)
		}
	}
	if k.add != 0 || k.set != 2 || k.read != 0 { // they are known
		t.Errorf("%d other ends: %d calls to make them, %d to change them, %d readings", many, k.add, k.set, k.read)
	}
	b.own.IP(t, "link del a3")
	for _, key := range []scheduler.Key{first[3], second[3]} {
		if err := b.together(key)[key]; err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	b.same()
}

// What somebody does to the other end of a new cable before it is marked is seen, though that
// end is not read: either its creation fails, or the watch tells of it.
func TestOtherEndChangesBeforeItsTurn(t *testing.T) {
	for _, does := range []string{
		"link set z name y", "link set z address 2:0:0:0:0:9", "link set z mtu 1400", "link set z netns red", "link del z",
	} {
		t.Run(does, func(t *testing.T) {
			b := newBench(t, "blue", "red")
			n := b.follow()
			a, _ := b.want("a", `{"veth":{"peer":"z"}}`)
			z, _ := b.want("z", `{"veth":{"peer":"a"},"mtu":1500,"mac_address":"02:00:00:00:00:01","namespace":{"netns":"blue"}}`)
			if err := b.together(a)[a]; err != nil {
				t.Fatal(err)
			}
			b.nets["blue"].IP(t, strings.ReplaceAll(does, "red", b.nets["red"].Path))
			if err := b.together(z)[z]; err != nil {
				t.Log(err)
			} else {
				n.wait(t, func() bool { return slices.Contains(n.keys, z) })
			}
		})
	}
}

// A crash after some of many leaves nothing that the next agent does not find and finish.
func TestCrashesTogether(t *testing.T) {
	for _, point := range []string{"interface/recorded", "interface/made", "interface/marked"} {
		t.Run(point, func(t *testing.T) {
			b := newBench(t, "blue")
			text := map[scheduler.Key]string{}
			var first, all []scheduler.Key
			for i := range 5 {
				for _, end := range []string{"a%d", "b%d"} {
					name, peer := fmt.Sprintf(end, i), fmt.Sprintf(strings.NewReplacer("a", "b", "b", "a").Replace(end), i)
					where := ""
					if end == "b%d" {
						where = `,"namespace":{"netns":"blue"}`
					}
					k, _ := b.want(name, fmt.Sprintf(`{"veth":{"peer":"%s"}%s}`, peer, where))
					text[k] = fmt.Sprintf(`{"veth":{"peer":"%s"}%s}`, peer, where)
					if all = append(all, k); end == "a%d" {
						first = append(first, k)
					}
				}
			}
			b.fail.set(point)
			for k, err := range b.together(first...) {
				if !errors.Is(err, errCrash) {
					t.Errorf("%s: %v", k, err)
				}
			}
			b.fail.set("")
			b.restart()
			for k, f := range b.look() {
				b.self.put(k, f.Value, f.Meta)
			}
			for _, k := range all {
				b.finish(strings.TrimPrefix(string(k), models.KindInterface+"/"), text[k])
			}
			b.same()
		})
	}
}
