package diagnosis

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Facts are what is known beside a root. What is not known is left empty.
type Facts struct {
	// Label is the agent's.
	Label string
	// Keys are those around the root: of its kind, of who needs it, interfaces,
	// links, services and containers.
	// What was read just now stands first.
	Keys []scheduler.Status
	// Engines are the container runtimes, as the agent's parts.
	Engines []models.Health
	// Ends are deaths of containers, the newest first.
	Ends []End
	// Elsewhere are the labels of other agents for which the key is written.
	Elsewhere []string
	// Shadow: the agent does nothing to the network, as it was started.
	Shadow bool
}

// End is how a container ended.
type End struct {
	Label, Name string
	At          time.Time
	// Code is the exit code, negative if nobody knows. Signal ended it, if not 0.
	Code, Signal int
	// Reason says more, "" if there is nothing to say.
	Reason string
	// OutOfMemory: the kernel killed it for want of memory.
	OutOfMemory bool
}

// Finding is what is the matter, and what to do about it.
type Finding struct{ Text, Advice string }

// Diagnose says of a root what is the matter and what to do.
func Diagnose(r scheduler.Root, f Facts) Finding {
	kind, name, _ := strings.Cut(string(r.Key), "/")
	if unescaped, err := models.Unescape(name); err == nil {
		name = unescaped
	}
	d := &diagnosis{root: r, facts: f, kind: kind, name: name}
	found := d.finding()
	if found.Text == "" {
		found.Text = r.Text
	}
	return found
}

// diagnosis is a root with what is known around it.
type diagnosis struct {
	root       scheduler.Root
	facts      Facts
	kind, name string
}

func (d *diagnosis) finding() Finding {
	switch d.root.Kind {
	case scheduler.RootNotAsked:
		return d.notAsked()
	case scheduler.RootNotThere:
		return d.notThere()
	case scheduler.RootNoneOf:
		return d.noneOf()
	case scheduler.RootUnfit:
		return d.unfit()
	case scheduler.RootInvalid:
		return d.invalid()
	case scheduler.RootTaken:
		return d.taken()
	case scheduler.RootFailed:
		return d.failed()
	case scheduler.RootPaused:
		return d.paused()
	case scheduler.RootUnread:
		return d.unread()
	case scheduler.RootNoKind:
		return d.noKind()
	case scheduler.RootDrifted:
		return advice("see agentctl diff %s; agentctl resync %s makes it as wanted", d.root.Key, d.root.Key)
	case scheduler.RootKept:
		return advice("nothing: it goes when all sources and the live host were heard, see agentctl status")
	case scheduler.RootCircle:
		return advice("take one of the needs out of the cycle: change %s, or another of them", d.root.Key)
	}
	return advice("nothing: it is under way; agentctl wait %s", d.root.Key)
}

// advice leaves the text of the root as it is.
func advice(format string, args ...any) Finding {
	return Finding{Advice: fmt.Sprintf(format, args...)}
}

// find returns the status of a key, also of one that is derived.
func (d *diagnosis) find(k scheduler.Key) (scheduler.Status, bool) {
	for _, s := range d.facts.Keys {
		if s.Key == k {
			return s, true
		}
		for _, c := range s.Derived {
			if c.Key == k {
				return c, true
			}
		}
	}
	return scheduler.Status{}, false
}

// wish is what is asked of a key, else what is there, nil if that is not of the type.
func wish[V proto.Message](s scheduler.Status) (v V) {
	if v, ok := s.Desired.(V); ok {
		return v
	}
	v, _ = s.Actual.(V)
	return v
}

// similar is the name of a key of the same kind that was probably meant, "" for none.
func (d *diagnosis) similar(there func(scheduler.Status) bool) string {
	var names []string
	for _, s := range d.facts.Keys {
		kind, name, _ := strings.Cut(string(s.Key), "/")
		if kind != d.kind || s.Key == d.root.Key || !there(s) {
			continue
		}
		if name, err := models.Unescape(name); err == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return models.Nearest(d.name, names)
}

// notAsked: the key is needed and nobody wrote it.
func (d *diagnosis) notAsked() Finding {
	if d.root.Status.State == scheduler.Leftover || d.root.Status.State == scheduler.Removed {
		if d.root.For == "" {
			return advice("nothing: it is not in the intent; write it again to keep it: agentctl put %s", d.root.Key)
		}
		return advice("write it again, %s needs it: agentctl put %s", d.root.For, d.root.Key)
	}
	if len(d.facts.Elsewhere) > 0 {
		return Finding{
			Text: fmt.Sprintf("%s is not there: nobody asked the agent with the label %s for it, but it is written for %s",
				d.root.Key, d.facts.Label, strings.Join(d.facts.Elsewhere, ", ")),
			Advice: fmt.Sprintf("write it below /plumb/%s/config/: agentctl put %s", d.facts.Label, d.root.Key),
		}
	}
	put := fmt.Sprintf("agentctl put %s", d.root.Key)
	if k, err := models.KindByName(d.kind); err != nil || !k.Writable {
		return advice("nobody can write %s; name another one in %s", d.root.Key, d.root.For)
	}
	if near := d.similar(asked); near != "" {
		return advice("did you mean %s/%s? Else write it: %s", d.kind, near, put)
	}
	return advice("write it: %s (agentctl example %s shows one)", put, d.kind)
}

func asked(s scheduler.Status) bool { return s.Origin != "" }

// notThere: it does not exist.
func (d *diagnosis) notThere() Finding {
	switch d.kind {
	case models.KindMicroservice:
		return d.service()
	case models.KindHostLink:
		if near := d.similar(present); near != "" {
			return advice("did you mean %s? Else make the link, or correct host_name of %s; agentctl get hostlink shows what is there", near, d.root.For)
		}
		return advice("make the link, or correct host_name of %s; agentctl get hostlink shows what is there", d.root.For)
	case models.KindNamespace:
		return d.namespace()
	case models.KindIPLease:
		pool, _, _, _ := models.SplitIPLease(string(d.root.Key))
		return advice("it comes with the pool: agentctl why %s", models.IPPoolKey(pool))
	}
	return advice("it has to come by itself; see agentctl get %s", d.kind)
}

func present(s scheduler.Status) bool { return s.Actual != nil }

// namespace: a namespace that is named by what is not there.
func (d *diagnosis) namespace() Finding {
	switch how, what, _ := strings.Cut(d.name, ":"); how {
	case "pid":
		return advice("no process %s lives here: start it, or correct pid of %s", what, d.root.For)
	case "pod":
		return advice("no container runtime has attached the pod: start it, see agentctl cni")
	}
	return advice("make the namespace (ip netns add), or correct path of %s", d.root.For)
}

// noneOf: none of the keys below a prefix will do.
func (d *diagnosis) noneOf() Finding {
	switch d.kind {
	case models.KindContainer:
		return d.container()
	case models.KindAddress:
		who, _ := d.find(d.root.For)
		if r := wish[*models.Route](who); r != nil && d.name != "" {
			iface := strings.TrimSuffix(d.name, "/")
			return advice("give interface/%s an address in the network of the gateway, correct the gateway of %s, or set onlink", iface, d.root.For)
		} else if r != nil {
			return advice("give an interface the address %s, or correct source of %s", r.GetSource(), d.root.For)
		}
		return advice("give the interface an address")
	}
	return advice("write one: agentctl put %s/NAME (agentctl example %s shows one)", d.kind, d.kind)
}

// unfit: it is there, but not as it is needed.
func (d *diagnosis) unfit() Finding {
	who, _ := d.find(d.root.By)
	switch v := wish[proto.Message](d.root.Status).(type) {
	case *models.Interface:
		if by, _, _ := strings.Cut(string(d.root.By), "/"); !v.IsEnabled() && (by == models.KindRoute || by == models.KindNexthop) {
			return Finding{
				Text:   fmt.Sprintf("%s is disabled (enabled: false), and the kernel takes no %s over a link that is down", d.root.Key, by),
				Advice: fmt.Sprintf("enable it in its value, or delete %s", d.root.By),
			}
		}
		if m := wish[*models.Interface](who); m != nil && models.InterfaceKey(m.GetMaster()) == string(d.root.Key) {
			return Finding{
				Text:   fmt.Sprintf("%s can have no members: it is neither a bridge nor a vrf", d.root.Key),
				Advice: fmt.Sprintf("name a bridge or a vrf as master of %s", d.root.By),
			}
		}
	case *models.Microservice:
		return d.refused(v)
	case *models.IPLease:
		pool, _, _, _ := models.SplitIPLease(string(d.root.Key))
		return advice("ask for another address, delete an ipclaim, or make ippool/%s larger; agentctl get ipclaim shows who has which", pool)
	case *models.NamespaceRef:
		return advice("correct inode of %s, or leave it out to take whichever is there", d.root.By)
	}
	return advice("change %s, or %s that needs it otherwise", d.root.Key, d.root.By)
}

// invalid: the value is refused.
func (d *diagnosis) invalid() Finding {
	fields := make([]string, len(d.root.Status.Fields))
	for i, f := range d.root.Status.Fields {
		fields[i] = f.Field
	}
	where := "the value"
	if named := strings.Join(slices.DeleteFunc(fields, func(f string) bool { return f == "" }), ", "); named != "" {
		where = named
	}
	if _, err := models.KindByName(d.kind); err != nil {
		return advice("write it below a kind that there is, see agentctl kinds")
	}
	written := d.written(d.root.Key)
	if d.root.By != "" {
		return advice("make the two agree: change %s or %s", written, d.written(d.root.By))
	}
	kind, _, _ := strings.Cut(string(written), "/")
	return advice("correct %s: agentctl put %s (agentctl explain %s says what is allowed)", where, written, kind)
}

// taken: somebody else has what only one can have.
func (d *diagnosis) taken() Finding {
	what := map[string]string{
		models.KindInterface: "another host_name",
		models.KindRoute:     "another metric or table",
		models.KindAddress:   "another address",
		models.KindIPClaim:   "another address",
		models.KindIPPool:    "another network",
		models.KindNftables:  "another table",
		models.KindSysctl:    "another setting",
	}[d.kind]
	if what == "" {
		return advice("give it up there: %s", d.giveUp(d.root.By))
	}
	return advice("give %s %s, or give it up there: %s", d.written(d.root.Key), what, d.giveUp(d.root.By))
}

// giveUp is the command by which a key is not wanted any more: what another one derives
// goes when that is written without it.
func (d *diagnosis) giveUp(k scheduler.Key) string {
	if base := d.written(k); base != k {
		return fmt.Sprintf("agentctl edit %s", base)
	}
	return fmt.Sprintf("agentctl delete %s", k)
}

// written is the key that somebody wrote for a key to be there: the one that derives it, if
// there is one.
func (d *diagnosis) written(k scheduler.Key) scheduler.Key {
	s := d.root.Status
	if s.Key != k {
		s, _ = d.find(k)
	}
	return cmp.Or(s.Base, k)
}

// paused: an operator holds it, or it is held back.
func (d *diagnosis) paused() Finding {
	target := strings.TrimSuffix(string(d.root.By), "/")
	switch id := d.root.HeldBack; {
	case id != "":
		return advice("if it is to go: agentctl release %s; else write it again, or undo the change: agentctl abort %s", id, id)
	case target != "":
		return advice("%s: agentctl resume %s", d.until(), target)
	case d.facts.Shadow:
		return advice("a shadow does nothing to the network; start the agent without --shadow")
	}
	return advice("%s: agentctl unfreeze", d.until())
}

func (d *diagnosis) until() string {
	if d.root.Until.IsZero() {
		return "it continues when somebody resumes it"
	}
	return fmt.Sprintf("it continues by itself at %s, or at once", clock(d.root.Until))
}

// unread: its actual state cannot be told.
func (d *diagnosis) unread() Finding {
	if d.kind == models.KindMicroservice || d.kind == models.KindContainer {
		if e := d.silent(); e != "" {
			return cannotTell(string(d.root.Key), e)
		}
	}
	return advice("nothing is done on what cannot be read; it is read again by itself, see agentctl status")
}

func (d *diagnosis) noKind() Finding {
	if _, err := models.KindByName(d.kind); err != nil {
		return advice("%v; see agentctl kinds", err)
	}
	return advice("this agent cannot make a %s, see agentctl kinds", d.kind)
}

// clock is a time as people and programs read it.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
