package proxy

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/owned"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

const prefix = models.KindProxy + "/"

// Deps are what the kind works with.
type Deps struct {
	Kernel  kernel.Kernel
	Proxies kernel.Proxies
	Owner   *kernel.Owner
	Places  selector.Places
	// Poll gives the moments at which socket files are looked at. Default: every ten
	// seconds while Watch runs.
	Poll <-chan time.Time
}

// New makes the kind. What an operation remembers is the process.
func New(deps Deps) scheduler.Descriptor[*models.Proxy, kernel.ProxyProcess] {
	d := &proxy{Deps: deps}
	d.objects = owned.Objects[*models.Proxy, kernel.ProxyProcess]{
		Kind: models.KindProxy, Kernel: deps.Kernel, Owner: deps.Owner, Prepare: d.prepare, Forget: d.forget}
	k := d.objects.Descriptor()
	k.Update, k.Delete = d.update, d.delete
	k.Needs, k.Claims, k.Compare, k.Disruption = needs, claims, compare, disruption
	k.Retrieve, k.Watch = d.retrieve, d.watch
	return k
}

type proxy struct {
	Deps

	objects owned.Objects[*models.Proxy, kernel.ProxyProcess]
	files   owned.Memory[struct{}, scheduler.Key, file] // the socket files that are believed to be there
}

// file is a socket file of ours and its mode.
type file struct {
	key     scheduler.Key
	process kernel.ProxyProcess
	mode    uint32
}

type (
	op    = scheduler.Op[*models.Proxy, kernel.ProxyProcess]
	found = scheduler.Found[*models.Proxy, kernel.ProxyProcess]
	scope = scheduler.Scope[*models.Proxy, kernel.ProxyProcess]
	job   = owned.Job[kernel.ProxyProcess]
)

func (d *proxy) note(k scheduler.Key, p kernel.ProxyProcess, mode uint32) {
	if p.File.Path != "" {
		d.files.Note(struct{}{}, k, file{k, p, mode})
	}
}

func (d *proxy) forget(e kernel.Entry) { d.files.Forget(struct{}{}, scheduler.Key(e.ID)) }

// made is what the ledger keeps of a proxy, and the process itself of what it does.
type made struct {
	Value json.RawMessage `json:"value"`
	// Listen and Forward are the ends as they were found.
	Listen  kernel.ProxyEnd `json:"listen"`
	Forward kernel.ProxyEnd `json:"forward"`
	// Process is of the ledger alone.
	Process kernel.ProxyProcess `json:"process,omitzero"`
}

func (m made) entry(k scheduler.Key) kernel.Entry {
	value, _ := json.Marshal(m) // plain texts never fail
	return kernel.Entry{ID: string(k), Value: value, Mark: m.Process.Mark}
}

// rules are what the process may be told at any time.
func (m made) rules(v *models.Proxy) kernel.ProxyRules {
	m.Process = kernel.ProxyProcess{}
	note, _ := json.Marshal(m)
	return kernel.ProxyRules{Address: m.Forward.Address, MaxSessions: int(v.EffectiveMaxSessions()),
		Idle: time.Duration(v.EffectiveIdleTimeout()) * time.Second, Note: note}
}

// recorded is what the ledger or a process says.
func recorded(text []byte) (m made, v *models.Proxy, err error) {
	if err = json.Unmarshal(text, &m); err == nil {
		v, err = models.DecodeValue[*models.Proxy](m.Value)
	}
	return m, v, err
}

// needs: the namespaces of both ends.
func needs(_ scheduler.Key, v *models.Proxy) []scheduler.Need {
	in, out := v.GetListen().GetNamespace(), v.GetForward().GetNamespace()
	list := selector.Needs(in)
	if selector.Text(in) != selector.Text(out) {
		list = append(list, selector.Needs(out)...)
	}
	return list
}

// claims: one proxy at an address. That two selectors mean one namespace is not known here;
// see [proxy.holder].
func claims(_ scheduler.Key, v *models.Proxy) []scheduler.Claim {
	l := v.GetListen()
	what, where := l.EffectiveProtocol()+" "+l.EffectiveAddress(), ""
	if l.File() == "" {
		where = " in " + l.GetNamespace().Text()
	}
	return []scheduler.Claim{{ID: selector.Text(l.GetNamespace()) + "|" + what, What: what + where}}
}

// compare: a process listens where it was born to, and lives where it forwards.
func compare(_ scheduler.Key, from, to *models.Proxy) scheduler.Verdict {
	var d kind.Differences
	must := func(field, was, is string) { d.Must(was != is, field, was, is) }
	in, out := from.GetListen(), from.GetForward()
	must("listen.namespace", in.GetNamespace().Text(), to.GetListen().GetNamespace().Text())
	must("listen.protocol", in.EffectiveProtocol(), to.GetListen().EffectiveProtocol())
	must("listen.address", in.EffectiveAddress(), to.GetListen().EffectiveAddress())
	must("forward.namespace", out.GetNamespace().Text(), to.GetForward().GetNamespace().Text())
	must("forward.protocol", from.ForwardProtocol(), to.ForwardProtocol())
	if gone := out.GetAddress() == ""; gone {
		must("forward.address", "", to.GetForward().EffectiveAddress())
	} else {
		d.May(out.EffectiveAddress() != to.GetForward().EffectiveAddress(), "forward.address", out.EffectiveAddress(), to.GetForward().EffectiveAddress())
	}
	if to.GetListen().File() != "" {
		d.May(in.EffectiveMode() != to.GetListen().EffectiveMode(), "listen.mode", octal(in.EffectiveMode()), octal(to.GetListen().EffectiveMode()))
	}
	d.May(from.EffectiveMaxSessions() != to.EffectiveMaxSessions(), "max_sessions", from.EffectiveMaxSessions(), to.EffectiveMaxSessions())
	d.May(from.EffectiveIdleTimeout() != to.EffectiveIdleTimeout(), "idle_timeout", from.EffectiveIdleTimeout(), to.EffectiveIdleTimeout())
	return d.Verdict()
}

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }

// disruption: connections end with their process.
func disruption(k scheduler.Key, from, to *models.Proxy) scheduler.Disruption {
	if from == nil || to != nil && compare(k, from, to).Change != scheduler.Replace {
		return scheduler.NoDisruption
	}
	return scheduler.Disruptive
}
