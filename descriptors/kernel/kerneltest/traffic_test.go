package kerneltest_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kernel/kerneltest"
)

// TestTrafficRefused: what no command of tc says is answered in memory as on Linux.
func TestTrafficRefused(t *testing.T) {
	const nobody = 4711 // the index of no link
	tbf := kernel.Tbf{Rate: 125000, Burst: 4096, Limit: 54096}
	at := func(index int, handle uint16, kind string) kernel.Qdisc {
		return kernel.Qdisc{Index: index, Handle: handle, Kind: kind, Tbf: tbf}
	}
	hook := func(index int, kind string) kernel.Qdisc { return at(index, kernel.HookHandle, kind) }
	mirror := func(index, to int, mark string) kernel.Filter { return kernel.Filter{Index: index, To: to, Mark: mark} }
	more := at(1, 1, "tbf")
	more.More = true
	calls := []struct {
		what string
		call func(k kernel.Kernel, ns kernel.NS) error
	}{
		{"no link", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, at(nobody, 1, "tbf")) }},
		{"a negative link", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, at(-1, 1, "tbf")) }},
		{"an unknown kind", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, at(1, 1, "htb")) }},
		{"more than can be said", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, more) }},
		{"no handle", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, at(1, 0, "tbf")) }},
		{"a hook at the root", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, at(1, 1, "clsact")) }},
		{"a discipline as a hook", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, hook(1, "tbf")) }},
		{"delete of no link", func(k kernel.Kernel, ns kernel.NS) error { return k.DeleteQdisc(ns, at(nobody, 1, "tbf")) }},
		{"no hook", func(k kernel.Kernel, ns kernel.NS) error { return k.AddFilter(ns, mirror(1, 1, "")) }},
		{"delete without a hook", func(k kernel.Kernel, ns kernel.NS) error {
			return k.DeleteFilter(ns, kernel.Filter{Index: 1, Pref: 1, Handle: 1})
		}},
		{"delete at no link", func(k kernel.Kernel, ns kernel.NS) error {
			return k.DeleteFilter(ns, kernel.Filter{Index: nobody, Pref: 1, Handle: 1})
		}},
		{"replaced where nothing was", func(k kernel.Kernel, ns kernel.NS) error { return k.ReplaceQdisc(ns, 7, at(1, 1, "tbf")) }},
		{"a hook is made", func(k kernel.Kernel, ns kernel.NS) error { return k.AddQdisc(ns, hook(1, "clsact")) }},
		{"a hook of another kind", func(k kernel.Kernel, ns kernel.NS) error {
			return k.ReplaceQdisc(ns, kernel.HookHandle, hook(1, "ingress"))
		}},
		{"no link by which", func(k kernel.Kernel, ns kernel.NS) error { return k.AddFilter(ns, mirror(1, nobody, "")) }},
		{"no link of which", func(k kernel.Kernel, ns kernel.NS) error { return k.AddFilter(ns, mirror(nobody, 1, "")) }},
		{"no mark", func(k kernel.Kernel, ns kernel.NS) error { return k.AddFilter(ns, mirror(1, 1, "x")) }},
		{"too long a mark", func(k kernel.Kernel, ns kernel.NS) error {
			return k.AddFilter(ns, mirror(1, 1, "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"))
		}},
		{"one filter", func(k kernel.Kernel, ns kernel.NS) error { return k.AddFilter(ns, mirror(1, 1, "0a")) }},
		{"another is deleted", func(k kernel.Kernel, ns kernel.NS) error {
			return k.DeleteFilter(ns, kernel.Filter{Index: 1, Pref: 1, Handle: 1})
		}},
		{"filters of no link", func(k kernel.Kernel, ns kernel.NS) error { return second(k.Filters(ns, nobody, false)) }},
		{"filters of what is none", func(k kernel.Kernel, ns kernel.NS) error { return second(k.Filters(ns, 0, false)) }},
		{"no namespace", func(k kernel.Kernel, _ kernel.NS) error { return second(k.Qdiscs(1)) }},
	}
	memory, host := kerneltest.New(kerneltest.Options{}), linux(t)
	for _, c := range calls {
		in, on := sentinelOf(c.call(memory, memory.Own())), sentinelOf(c.call(host, host.Own()))
		if in != on {
			t.Errorf("%s: in memory %s, on Linux %s", c.what, in, on)
		}
	}
	a, errA := kerneltest.Text(memory)
	b, errB := kerneltest.Text(host)
	if err := errors.Join(errA, errB); err != nil || a != b {
		t.Errorf("%v in memory\n%son Linux\n%s", err, a, b)
	}
}

// sentinelOf is an error as descriptors see it.
func sentinelOf(err error) string {
	all := []error{kernel.ErrExist, kernel.ErrNotExist, kernel.ErrNoNamespace, kernel.ErrUnsupported}
	if i := slices.IndexFunc(all, func(s error) bool { return errors.Is(err, s) }); i >= 0 {
		return all[i].Error()
	}
	if err != nil {
		return "refused"
	}
	return "done"
}
