package proxy

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the proxies that the ledger names, and those that only bear the mark too:
// so they are found if the ledger is lost.
func (d *proxy) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		if !s.ReadOnly {
			d.objects.Read()
		}
		reading := d.Owner.Reading()
		known := map[scheduler.Key]bool{}
		var forget []string
		for _, e := range d.entries(s) {
			k := scheduler.Key(e.ID)
			known[k] = true
			f, err := d.look(ctx, s, k, e)
			if kernel.IsGone(err) {
				if !s.ReadOnly {
					d.forget(e)
					forget = append(forget, e.ID)
				}
				continue
			}
			if !yield(f, err) {
				return
			}
		}
		reading.Forget(forget...)
		if s.All || slices.ContainsFunc(s.Keys, func(k scheduler.Key) bool { return !known[k] }) {
			d.marked(ctx, s, known, yield)
		}
	}
}

// entries are what the ledger says of the keys in the scope.
func (d *proxy) entries(s scope) (list []kernel.Entry) {
	if s.All {
		return d.Owner.Entries(prefix)
	}
	for _, k := range s.Keys {
		if e, ok := d.Owner.Entry(string(k)); ok {
			list = append(list, e)
		}
	}
	return list
}

// look reads what the ledger names.
func (d *proxy) look(ctx context.Context, s scope, k scheduler.Key, e kernel.Entry) (found, error) {
	m, v, err := recorded(e.Value)
	if err != nil {
		return found{Key: k}, fmt.Errorf("read the ledger: %w", err)
	}
	state, err := d.Proxies.ReadProxy(ctx, m.Process)
	if errors.Is(err, kernel.ErrProxyEnded) {
		return found{Key: k, Value: nowhere(v), Meta: m.Process}, nil
	}
	return d.value(s, k, m.Process, state, err)
}

// value is what a process does, as a value.
func (d *proxy) value(s scope, k scheduler.Key, p kernel.ProxyProcess, state kernel.ProxyState, err error) (found, error) {
	f := found{Key: k, Meta: p}
	if err != nil {
		return f, err
	}
	m, v, err := recorded(state.Rules.Note)
	if err != nil {
		return f, fmt.Errorf("read what process %d does: %w", p.PID, err)
	}
	in, err := d.lives(m.Listen)
	if err != nil {
		return f, err
	}
	out, err := d.lives(m.Forward)
	if err != nil {
		return f, err
	}
	f.Value = v
	if !out {
		f.Value = proto.CloneOf(v)
		f.Value.Forward.Address = ""
	}
	if !in {
		f.Value = nowhere(f.Value)
	}
	return d.withFile(s, f)
}

// lives reports whether the namespace of an end is still what is found where it was found.
func (d *proxy) lives(end kernel.ProxyEnd) (bool, error) {
	if end.NS == 0 {
		return true, nil
	}
	_, err := kernel.Entry{NS: end.NS, NSPath: end.Path}.Find(d.Kernel)
	if kernel.IsGone(err) {
		return false, nil
	}
	return true, err
}

// withFile looks at the socket file too.
func (d *proxy) withFile(s scope, f found) (found, error) {
	if f.Meta.File.Path == "" {
		return f, nil
	}
	mode, err := d.Proxies.ProxyFile(f.Meta)
	switch {
	case errors.Is(err, kernel.ErrNotExist):
		f.Value = nowhere(f.Value)
		if !s.ReadOnly {
			d.forget(kernel.Entry{ID: string(f.Key)})
		}
		return f, nil
	case err != nil:
		return f, err
	case mode != f.Value.GetListen().EffectiveMode():
		f.Value = proto.CloneOf(f.Value)
		f.Value.Listen.Mode = octal(mode)
	}
	if !s.ReadOnly {
		d.note(f.Key, f.Meta, mode)
	}
	return f, nil
}

// nowhere is the value of a proxy at which nobody can arrive any more.
func nowhere(v *models.Proxy) *models.Proxy {
	v = proto.CloneOf(v)
	// The protocol stays what it was.
	v.Listen.Protocol, v.Listen.Address = v.Listen.EffectiveProtocol(), ""
	return v
}

// marked reads the processes that only bear the mark.
func (d *proxy) marked(ctx context.Context, s scope, known map[scheduler.Key]bool, yield func(found, error) bool) {
	all, err := d.Proxies.MarkedProxies()
	if err != nil {
		yield(found{}, fmt.Errorf("look for processes with the mark: %w", err))
		return
	}
	for _, p := range all {
		key, ours := d.Owner.MarkedKey(p.Mark)
		k := scheduler.Key(key)
		if _, recorded := d.Owner.Entry(key); !ours || !s.Has(k) || known[k] || recorded {
			continue
		}
		state, err := d.Proxies.ReadProxy(ctx, p)
		if errors.Is(err, kernel.ErrNotExist) {
			continue
		}
		f, err := d.value(s, k, p, state, err)
		if !yield(f, err) {
			return
		}
	}
}

// watch hears at once of processes that end, and looks at socket files now and then.
func (d *proxy) watch(ctx context.Context, notify func(...scheduler.Key)) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.Proxies.WatchProxies(ctx, func(mark string) {
			if key, ours := d.Owner.MarkedKey(mark); ours {
				notify(scheduler.Key(key))
			}
		})
	}()
	defer func() { <-ended }()
	return owned.Poll(ctx, d.Poll, owned.Every, d.moved, notify)
}

// moved are the keys whose socket file is not as it is believed to be, sorted.
func (d *proxy) moved(context.Context) (moved []scheduler.Key) {
	for _, f := range d.files.All() {
		if mode, err := d.Proxies.ProxyFile(f.process); err != nil || mode != f.mode {
			moved = append(moved, f.key)
		}
	}
	slices.Sort(moved)
	return moved
}
