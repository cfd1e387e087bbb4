package kerneltest

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// What tc(8) says, and how it says it.

// discipline is one of the kinds that have settings: its words, and what they mean.
type discipline struct {
	words func(kernel.Qdisc) []string
	read  func(*request, *kernel.Qdisc)
}

var tcDisciplines = map[string]discipline{
	"tbf":   {tbfWords, (*request).tbf},
	"netem": {netemWords, (*request).netem},
}

func (c *request) qdisc() error {
	act := c.next()
	q := kernel.Qdisc{Index: c.device()}
	switch where := c.next(); where {
	case kernel.HookBoth, kernel.HookIngress:
		q.Handle, q.Kind = kernel.HookHandle, where
	case "root":
		if len(c.words) > 0 && c.words[0] == "handle" {
			c.next()
			q.Handle = c.handle()
		}
		if act != "del" {
			q.Kind = c.next()
			if d, known := tcDisciplines[q.Kind]; known {
				d.read(c, &q)
			}
		}
	default:
		c.fail("%q is not understood here", where)
	}
	err := c.each(func(string) bool { return false })
	return do(c, act, q, err, acts[kernel.Qdisc]{
		"add":     c.k.AddQdisc,
		"change":  func(ns kernel.NS, q kernel.Qdisc) error { return c.k.ReplaceQdisc(ns, q.Handle, q) },
		"replace": c.replaceQdisc,
		"del":     c.deleteQdisc,
	})
}

// replaceQdisc changes the one at the root if it has that handle, and else puts it there.
func (c *request) replaceQdisc(ns kernel.NS, q kernel.Qdisc) error {
	there, err := c.root(ns, q.Index)
	if errors.Is(err, kernel.ErrNotExist) {
		return c.k.AddQdisc(ns, q)
	}
	if err != nil {
		return err
	}
	return c.k.ReplaceQdisc(ns, there.Handle, q)
}

// deleteQdisc deletes, without a handle, whatever is at the root.
func (c *request) deleteQdisc(ns kernel.NS, q kernel.Qdisc) error {
	if q.Handle == 0 {
		there, err := c.root(ns, q.Index)
		if err != nil {
			return err
		}
		q = there
	}
	return c.k.DeleteQdisc(ns, q)
}

func (c *request) root(ns kernel.NS, index int) (kernel.Qdisc, error) {
	all, err := c.k.Qdiscs(ns)
	for _, q := range all {
		if q.Index == index && !q.Hook() {
			return q, nil
		}
	}
	return kernel.Qdisc{}, cmp.Or(err, kernel.ErrNotExist)
}

func (c *request) handle() uint16 {
	w := c.next()
	n, err := strconv.ParseUint(strings.TrimSuffix(w, ":"), 16, 16)
	if err != nil {
		c.fail("%q is no handle", w)
	}
	return uint16(n)
}

func (c *request) tbf(q *kernel.Qdisc) {
	t, latency := &q.Tbf, time.Duration(0)
	_ = c.each(func(w string) bool { // c.err has it
		switch w {
		case "rate":
			t.Rate = c.rate()
		case "burst":
			t.Burst = uint32(c.size())
		case "limit":
			t.Limit = uint32(c.size())
		case "latency", "lat":
			latency = time.Duration(c.span())
		default:
			return false
		}
		return true
	})
	if latency != 0 {
		t.Limit = uint32(float64(t.Rate)*latency.Seconds() + float64(t.Burst))
	}
}

func tbfWords(q kernel.Qdisc) []string {
	return []string{"rate " + rateText(q.Tbf.Rate), fmt.Sprintf("burst %d", q.Tbf.Burst), fmt.Sprintf("limit %d", q.Tbf.Limit)}
}

func (c *request) netem(q *kernel.Qdisc) {
	t := &q.Netem
	t.Limit = 1000
	_ = c.each(func(w string) bool { // c.err has it
		switch w {
		case "limit":
			t.Limit = uint32(c.number())
		case "delay":
			t.Delay = c.span()
			if len(c.words) > 0 && c.words[0][0] >= '0' && c.words[0][0] <= '9' {
				t.Jitter = c.span()
			}
		case "loss":
			t.Loss = c.chance()
		case "duplicate":
			t.Duplicate = c.chance()
		case "reorder":
			t.Reorder = c.chance()
		case "corrupt":
			t.Corrupt = c.chance()
		case "rate":
			t.Rate = c.rate()
		default:
			return false
		}
		return true
	})
}

func netemWords(q kernel.Qdisc) []string {
	t := q.Netem
	words := []string{fmt.Sprintf("limit %d", t.Limit)}
	if t.Delay != 0 || t.Jitter != 0 || t.Reorder != 0 { // tc wants a delay with a reorder
		words = append(words, "delay "+spanText(t.Delay))
	}
	if t.Jitter != 0 {
		words = append(words, spanText(t.Jitter))
	}
	for _, c := range []struct {
		word string
		of   uint32
	}{{"loss", t.Loss}, {"duplicate", t.Duplicate}, {"reorder", t.Reorder}, {"corrupt", t.Corrupt}} {
		if c.of != 0 {
			words = append(words, c.word+" "+chanceText(c.of))
		}
	}
	if t.Rate != 0 {
		words = append(words, "rate "+rateText(t.Rate))
	}
	return words
}

// unit is a part of a number that has a name.
type unit struct {
	name string
	of   float64
}

var (
	bits  = []unit{{"gbit", 1e9}, {"mbit", 1e6}, {"kbit", 1e3}, {"bit", 1}}
	sizes = []unit{{"kb", 1 << 10}, {"k", 1 << 10}, {"mb", 1 << 20}, {"m", 1 << 20}, {"b", 1}, {"", 1}}
	spans = []unit{{"ms", 1e6}, {"us", 1e3}, {"ns", 1}, {"s", 1e9}}
)

// measure reads a number with one of the units, in any case.
func (c *request) measure(units []unit) float64 {
	w := c.next()
	for _, u := range units {
		if number, has := strings.CutSuffix(strings.ToLower(w), u.name); has {
			if n, err := strconv.ParseFloat(number, 64); err == nil {
				return n * u.of
			}
		}
	}
	c.fail("%q is no number with a unit", w)
	return 0
}

// rate is bytes per second, written as bits.
func (c *request) rate() uint64 { return uint64(c.measure(bits) / 8) }
func (c *request) size() uint64 { return uint64(c.measure(sizes)) }
func (c *request) span() int64  { return int64(math.Round(c.measure(spans))) }

// chance is a probability, of all that 32 bits can say.
func (c *request) chance() uint32 {
	return uint32(math.Round(c.measure([]unit{{"%", math.MaxUint32}}) / 100))
}

// rateText is a rate in the largest unit of which it is a multiple.
func rateText(rate uint64) string {
	n, name := rate*8, "bit"
	for _, larger := range []string{"Kbit", "Mbit", "Gbit"} {
		if n == 0 || n%1000 != 0 {
			break
		}
		n, name = n/1000, larger
	}
	return fmt.Sprint(n) + name
}

func spanText(ns int64) string {
	n, name := ns, "ns"
	for _, larger := range []string{"us", "ms", "s"} {
		if n%1000 != 0 || n == 0 {
			break
		}
		n, name = n/1000, larger
	}
	return fmt.Sprint(n) + name
}

// chanceText has as many digits as it takes to read the same.
func chanceText(chance uint32) string {
	of := float64(chance) / math.MaxUint32
	for digits := 0; ; digits++ {
		text := strconv.FormatFloat(of*100, 'f', digits, 64)
		if n, _ := strconv.ParseFloat(text, 64); uint32(math.Round(n/100*math.MaxUint32)) == chance {
			return text + "%"
		}
	}
}

// filter is one of u32 that mirrors all packets; its place is chosen by the port.
func (c *request) filter() error {
	act := c.next()
	f := kernel.Filter{Index: c.device()}
	switch at := c.next(); at {
	case "ingress", "egress":
		f.Egress = at == "egress"
	default:
		c.fail("%q is not understood here", at)
	}
	all := false
	err := c.each(func(w string) bool {
		switch w {
		case "pref":
			f.Pref = uint16(c.number())
		case "protocol":
			return c.next() == "all"
		case "u32":
			all = c.are("match", "u32", "0", "0")
			return all
		case "action":
			if !c.are("mirred", "egress", "mirror") {
				return false
			}
			f.To = c.device()
			return c.are("continue")
		case "cookie":
			f.Mark = c.next()
		default:
			return false
		}
		return true
	})
	if act == "add" && !all && err == nil {
		err = errors.New("want a filter of u32 that is about all packets")
	}
	return do(c, act, f, err, acts[kernel.Filter]{"add": c.k.AddFilter, "del": c.deleteFilters})
}

// are reports whether the next words are these.
func (c *request) are(words ...string) bool {
	for _, w := range words {
		if c.next() != w {
			return false
		}
	}
	return true
}

// deleteFilters deletes those of a place, or all at the hook.
func (c *request) deleteFilters(ns kernel.NS, of kernel.Filter) error {
	all, err := c.k.Filters(ns, of.Index, of.Egress)
	for _, f := range all {
		if of.Pref == 0 || of.Pref == f.Pref {
			err = errors.Join(err, c.k.DeleteFilter(ns, f))
		}
	}
	return err
}

// traffic are the disciplines, the hooks and what is at them.
func (t *text) traffic(ns kernel.NS) error {
	all, err := t.k.Qdiscs(ns)
	for _, q := range all {
		dev := t.dev(ns, q.Index)
		if !q.Hook() {
			words := []string{"add", dev, "root", fmt.Sprintf("handle %x:", q.Handle), q.Kind}
			tool := "tc qdisc"
			if d, known := tcDisciplines[q.Kind]; known && !q.More {
				words = append(words, d.words(q)...)
			} else {
				tool = "# tc qdisc" // it says more than that
			}
			t.line(ns, tool, words...)
			continue
		}
		t.line(ns, "tc qdisc", "add", dev, q.Kind)
		hooks := []bool{false, true}
		if q.Kind == kernel.HookIngress {
			hooks = hooks[:1]
		}
		for _, egress := range hooks {
			filters, err := t.k.Filters(ns, q.Index, egress)
			if err != nil {
				return err
			}
			slices.Reverse(filters) // each comes before those that are there
			for _, f := range filters {
				t.filter(ns, dev, f)
			}
		}
	}
	return err
}

func (t *text) filter(ns kernel.NS, dev string, f kernel.Filter) {
	at := "ingress"
	if f.Egress {
		at = "egress"
	}
	tool, to := "tc filter", "*"
	if f.To != 0 {
		to = t.name(kernel.LinkRef{NS: ns, Index: f.To})
	} else {
		tool = "# tc filter" // it copies nothing, or says more than that
	}
	t.line(ns, tool, "add", dev, at, fmt.Sprintf("pref %d", f.Pref), "protocol all u32 match u32 0 0 action mirred egress mirror dev", to, "continue", option("cookie", f.Mark))
}
