package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// resolve finds the namespaces of both ends. A socket file is in none.
func (d *proxy) resolve(ctx context.Context, v *models.Proxy) (in, out kernel.ProxyEnd, err error) {
	in = kernel.ProxyEnd{Protocol: v.GetListen().EffectiveProtocol(), Address: v.GetListen().EffectiveAddress()}
	out = kernel.ProxyEnd{Protocol: v.ForwardProtocol(), Address: v.GetForward().EffectiveAddress()}
	if v.GetListen().File() == "" {
		err = d.place(ctx, v.GetListen().GetNamespace(), &in)
	}
	if err == nil {
		err = d.place(ctx, v.GetForward().GetNamespace(), &out)
	}
	return in, out, err
}

func (d *proxy) place(ctx context.Context, in *models.Namespace, end *kernel.ProxyEnd) error {
	var at selector.Place
	at, err := d.Places.Resolve(ctx, in)
	end.NS, end.Path = at.NS, at.Path
	return err
}

// prepare: what an earlier attempt has left of the same key makes way, unless it is what is
// asked for.
func (d *proxy) prepare(ctx context.Context, o *op) (j job, err error) {
	k, v := o.Key, o.Value
	m := made{Value: models.Encode(v), Process: kernel.ProxyProcess{Mark: d.Owner.WholeMark(string(k))}}
	if m.Listen, m.Forward, err = d.resolve(ctx, v); err != nil {
		return j, err
	}
	if other := d.holder(k, m.Listen); other != "" {
		return j, scheduler.Blocked(other, fmt.Errorf("%s %s is in use by %s", m.Listen.Protocol, m.Listen.Address, other))
	}
	before, had, err := d.before(k)
	if err != nil {
		return j, err
	}
	if had && d.runs(ctx, k, v, m, before.Process) {
		m.Process = before.Process
		j.Entries = []kernel.Entry{m.entry(k)}
		j.Make = func() (kernel.ProxyProcess, error) { return m.Process, d.Owner.Hit("proxy/made") }
		return j, nil
	}
	if v.GetListen().File() != "" {
		m.Process.File = kernel.SocketFile{Path: m.Listen.Address, Since: time.Now().UTC()}
		if was := before.Process.File; had && was.Path == m.Listen.Address && !was.Since.IsZero() {
			m.Process.File.Since = was.Since // it may be of that attempt
		}
	}
	if had { // first, since the entry is about to say something else
		if err := d.Proxies.StopProxy(ctx, before.Process); err != nil {
			return j, err
		}
	}
	j.Entries = []kernel.Entry{m.entry(k)}
	j.Make = func() (kernel.ProxyProcess, error) { return d.start(ctx, k, v, m) }
	return j, nil
}

// runs reports whether a process does already what is asked, in the same namespaces.
func (d *proxy) runs(ctx context.Context, k scheduler.Key, v *models.Proxy, m made, p kernel.ProxyProcess) bool {
	state, err := d.Proxies.ReadProxy(ctx, p)
	if err != nil {
		return false
	}
	f, err := d.value(scope{}, k, p, state, nil)
	if err != nil {
		return false
	}
	now, _, err := recorded(state.Rules.Note)
	return err == nil && now.Listen == m.Listen && now.Forward == m.Forward && compare(k, f.Value, v).Change == scheduler.Same
}

// before is what the ledger says of the key already.
func (d *proxy) before(k scheduler.Key) (m made, had bool, err error) {
	e, had := d.Owner.Entry(string(k))
	if had {
		if m, _, err = recorded(e.Value); err != nil {
			err = fmt.Errorf("read the ledger: %w", err)
		}
	}
	return m, had, err
}

// start starts the process. It is in the ledger before it serves anybody.
func (d *proxy) start(ctx context.Context, k scheduler.Key, v *models.Proxy, m made) (kernel.ProxyProcess, error) {
	p, err := d.Proxies.StartProxy(ctx, kernel.Proxy{
		Mark: m.Process.Mark, Listen: m.Listen, Mode: v.GetListen().EffectiveMode(), Forward: m.Forward,
		Rules: m.rules(v), Since: m.Process.File.Since,
	}, func(p kernel.ProxyProcess) error {
		if err := d.Owner.Hit("proxy/started"); err != nil {
			return err
		}
		m.Process = p
		return d.Owner.Record(m.entry(k))
	})
	if err != nil {
		return p, d.explain(k, err)
	}
	d.note(k, p, v.GetListen().EffectiveMode())
	return p, d.Owner.Hit("proxy/made")
}

// explain says who has what the proxy wants.
func (d *proxy) explain(k scheduler.Key, err error) error {
	var taken *kernel.TakenError
	if !errors.As(err, &taken) {
		return err
	}
	d.Owner.Remove(string(k)) // what is there was there before
	if key, ours := d.Owner.MarkedKey(taken.Mark); ours && key != "" && key != string(k) {
		return scheduler.Blocked(scheduler.Key(key), fmt.Errorf("%s is in use by %s", taken.Address, key))
	}
	return scheduler.Conflict(taken.By, fmt.Errorf("%s is in use", taken.Address))
}

// holder finds another key of ours that listens at the same place, which claims cannot
// see: two selectors that mean one namespace.
func (d *proxy) holder(k scheduler.Key, end kernel.ProxyEnd) scheduler.Key {
	for _, e := range d.Owner.Entries(prefix) {
		if e.ID == string(k) {
			continue
		}
		m, _, err := recorded(e.Value)
		if err == nil && m.Listen.NS == end.NS && m.Listen.Protocol == end.Protocol && m.Listen.Address == end.Address {
			return scheduler.Key(e.ID)
		}
	}
	return ""
}

// update tells the process what it is to do from now on. The ledger names it already; what
// it does it is asked.
func (d *proxy) update(ctx context.Context, k scheduler.Key, _, to *models.Proxy, p kernel.ProxyProcess) (kernel.ProxyProcess, error) {
	defer d.Owner.Begin(string(k))()
	m := made{Value: models.Encode(to), Process: p}
	var err error
	if m.Listen, m.Forward, err = d.resolve(ctx, to); err != nil {
		return p, err
	}
	if err := d.Owner.Record(m.entry(k)); err != nil {
		return p, err
	}
	if err := d.Owner.Hit("proxy/recorded"); err != nil {
		return p, err
	}
	mode := to.GetListen().EffectiveMode()
	if err := d.Proxies.SetProxy(ctx, p, m.rules(to), mode); err != nil {
		return p, lost(err)
	}
	d.note(k, p, mode)
	return p, d.Owner.Hit("proxy/made")
}

// lost has a process that has gone made anew.
func lost(err error) error {
	if errors.Is(err, kernel.ErrNotExist) {
		return scheduler.NotFound(err)
	}
	return err
}

// delete ends the process with all its connections. The ledger says which it is; without
// it, the mark by which it was found.
func (d *proxy) delete(ctx context.Context, k scheduler.Key, _ *models.Proxy, p kernel.ProxyProcess) error {
	return d.objects.Delete(func() error {
		m, had, err := d.before(k)
		if err != nil {
			return err
		}
		d.forget(kernel.Entry{ID: string(k)})
		if had {
			p = m.Process
		}
		if p.Mark == "" {
			return nil
		}
		return d.Proxies.StopProxy(ctx, p)
	}, k)
}

// RemoveLeft removes the socket file that the proxy of an entry of an earlier boot has left.
// Its process ended with that boot.
func RemoveLeft(p kernel.Proxies, e kernel.Entry) error {
	if !strings.HasPrefix(e.ID, prefix) {
		return nil
	}
	m, _, err := recorded(e.Value)
	if err != nil {
		return fmt.Errorf("read the ledger: %w", err)
	}
	m.Process.PID, m.Process.Start = 0, 0 // another's by now
	return p.StopProxy(context.Background(), m.Process)
}
