package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// Where rollouts are kept.
const (
	rollouts      = "/plumb-fleet/"
	lockKey       = rollouts + "lock"
	rolloutPrefix = rollouts + "rollout/"
	hostPrefix    = rollouts + "host/"
)

const (
	// keptRollouts is how many are kept, so that they can be looked at and undone.
	keptRollouts = 10
	// maxTotal bounds the values of a rollout, of all hosts together.
	maxTotal = 64 << 20
	// outcomeEvery is that of a Fleet that Open returns.
	outcomeEvery = 300 * time.Millisecond
	// grace is how long hosts may take beyond the time to confirm, and to take back.
	grace = 30 * time.Second
	// unheardTime is how long a host may take, at least, to give any answer.
	unheardTime = 2 * time.Second
	// saveTime bounds writing down how far it came, when there is no time left.
	saveTime = 5 * time.Second
)

// The states of a rollout.
const (
	Running = "running" // or who carried it out is gone; see Fleet.Resume
	Done    = "done"    // all hosts have it
	Halted  = "halted"  // a wave was not healthy; hosts of the waves before have it
	Undone  = "undone"  // no host has it any more
)

// The states of a host of a rollout.
const (
	Waiting = "waiting" // nothing was done yet
	Silent  = "silent"  // it did not answer
)

// Rollout is a change of many hosts.
type Rollout struct {
	ID      string    `json:"id"`
	By      string    `json:"by"`
	Message string    `json:"message,omitempty"`
	Files   []string  `json:"files,omitempty"`
	Created time.Time `json:"created"`
	// Seconds is how long hosts wait to be told that the change stays.
	Seconds   int      `json:"seconds"`
	PendingOK bool     `json:"pending_ok,omitempty"`
	Probes    []string `json:"probes,omitempty"`
	// Set is the apply-set of its values on each host; with Prune what the set wrote there
	// before and does not hold any more is deleted.
	Set   string `json:"set,omitempty"`
	Prune bool   `json:"prune,omitempty"`
	// Waves are labels; Next is the first wave that is not over.
	Waves [][]string `json:"waves"`
	Next  int        `json:"next"`
	// Attempt counts the tries, over all waves.
	Attempt int    `json:"attempt"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
}

// Host is what a host of a rollout gets, and what came of it.
type Host struct {
	Items []record.Item `json:"items"`
	// State is waiting, healthy, kept, reverted, refused, silent or restored.
	State  string   `json:"state"`
	Reason string   `json:"reason,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	// Changes are what has to be brought back to undo it.
	Changes []record.Change `json:"changes,omitempty"`
}

// Errors of rollouts.
var (
	ErrNoRollout = errors.New("there is no such rollout")
	ErrLocked    = errors.New("a rollout is being carried out")
	// ErrLater: another rollout was begun later and changes the same keys.
	ErrLater = errors.New("a later rollout changes the same keys")
)

// NewID makes the name of a rollout, which sorts by time.
func (f *Fleet) NewID() string { return f.Now().UTC().Format("20060102-150405.000") }

// prepare writes a rollout down, with what each host gets. Nothing is done yet.
func (f *Fleet) prepare(ctx context.Context, r *Rollout, hosts map[string][]record.Item) error {
	all, err := f.Rollouts(ctx)
	if err != nil {
		return err
	}
	if n := len(all); n > 0 && r.ID <= all[n-1].ID { // the clock of another machine is ahead
		r.ID = all[n-1].ID + "+"
	}
	total := 0
	var puts []put
	for _, wave := range r.Waves {
		for _, label := range wave {
			bytes := 0
			for _, i := range hosts[label] {
				bytes += len(i.Key) + len(i.Value) + len(i.Where)
			}
			if total += bytes; bytes > record.MaxBytes {
				return fmt.Errorf("%s: its values have %d bytes; at most %d go in one rollout", label, bytes, record.MaxBytes)
			}
			puts = append(puts, put{hostPrefix + r.ID + "/" + label, Host{Items: hosts[label], State: Waiting}})
		}
	}
	if total > maxTotal {
		return fmt.Errorf("the values of all hosts have %d bytes; at most %d go in one rollout", total, maxTotal)
	}
	r.State = Running
	if err := f.putAll(ctx, puts, nil); err != nil {
		return err
	}
	if err := f.save(ctx, r); err != nil { // from now on it is there
		return err
	}
	return f.prune(ctx)
}

// prune forgets the oldest rollouts.
func (f *Fleet) prune(ctx context.Context) error {
	all, err := f.Rollouts(ctx)
	if err != nil || len(all) <= keptRollouts {
		return err
	}
	for _, r := range all[:len(all)-keptRollouts] {
		if err := f.etcd.Delete(ctx, rolloutPrefix+r.ID, hostPrefix+r.ID+"/"); err != nil {
			return err
		}
	}
	return nil
}

func (f *Fleet) save(ctx context.Context, r *Rollout) error {
	return f.putAll(ctx, []put{{rolloutPrefix + r.ID, r}}, nil)
}

// Rollouts are those that are kept, the oldest first.
func (f *Fleet) Rollouts(ctx context.Context) (out []*Rollout, err error) {
	err = f.list(ctx, rolloutPrefix, func(name string, value []byte) error {
		r := new(Rollout)
		if err := json.Unmarshal(value, r); err != nil {
			return fmt.Errorf("the record of rollout %s cannot be read: %w", name, err)
		}
		out = append(out, r)
		return nil
	})
	return out, err
}

// Rollout is the one with the name, the last one without.
func (f *Fleet) Rollout(ctx context.Context, id string) (*Rollout, error) {
	all, err := f.Rollouts(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(all) {
		if id == "" || r.ID == id {
			return r, nil
		}
	}
	return nil, ErrNoRollout
}

// Hosts are those of a rollout, by label.
func (f *Fleet) Hosts(ctx context.Context, r *Rollout) (map[string]Host, error) {
	out := map[string]Host{}
	return out, f.list(ctx, hostPrefix+r.ID+"/", func(label string, value []byte) error {
		var h Host
		if err := json.Unmarshal(value, &h); err != nil {
			return fmt.Errorf("what rollout %s has for %s cannot be read: %w", r.ID, label, err)
		}
		out[label] = h
		return nil
	})
}

// course is a rollout while it is carried out.
type course struct {
	*Fleet
	r     *Rollout
	by    string
	hosts map[string]Host
	lease *dial.Lease
	tell  func(string)
	asked time.Time // when the present wave was asked to try
}

// carry does something with a rollout, alone.
func (f *Fleet) carry(ctx context.Context, r *Rollout, by string, tell func(string), do func(context.Context, *course) error) error {
	lease, err := f.etcd.Grant(ctx, outlive)
	if err != nil {
		return err
	}
	defer lease.End()
	lock := dial.KV{Key: lockKey, Value: fmt.Appendf(nil, "rollout %s, by %s", r.ID, by)}
	made, err := f.etcd.Create(ctx, lock, lease)
	if err != nil {
		return err
	}
	if !made {
		who, err := f.etcd.Get(ctx, lockKey)
		return errors.Join(fmt.Errorf("%w: %s; if that is dead, its claim ends within %s", ErrLocked, who[lockKey], outlive), err)
	}
	return do(ctx, &course{Fleet: f, r: r, by: by, lease: lease, tell: tell})
}

// load reads what the hosts get.
func (c *course) load(ctx context.Context) (err error) {
	c.hosts, err = c.Hosts(ctx, c.r)
	return err
}

// Start writes a rollout down, with what each host gets, and carries it out.
func (f *Fleet) Start(ctx context.Context, r *Rollout, hosts map[string][]record.Item, tell func(string)) error {
	return f.carry(ctx, r, r.By, tell, func(ctx context.Context, c *course) error {
		if err := f.prepare(ctx, r, hosts); err != nil {
			return err
		}
		tell("rollout " + r.ID)
		return c.run(ctx)
	})
}

// Resume carries a rollout on from where it is. It is refused with ErrLater if a later rollout
// has changed keys that are still to be written. tell gets what happens, in lines. The rollout
// says how it ended; an error means that it could not be carried on.
func (f *Fleet) Resume(ctx context.Context, r *Rollout, by string, tell func(string)) error {
	return f.carry(ctx, r, by, tell, func(ctx context.Context, c *course) error {
		if err := c.load(ctx); err != nil {
			return err
		}
		var open []string
		for _, wave := range r.Waves[min(r.Next, len(r.Waves)):] {
			for _, l := range wave {
				if c.hosts[l].State != record.Kept {
					open = append(open, l)
				}
			}
		}
		for _, wave := range r.Waves {
			for _, l := range wave {
				if c.hosts[l].State == record.Restored {
					return fmt.Errorf("rollout %s is being undone, and %s has been already; run \"agentctl fleet undo %s\" or start a new rollout", r.ID, l, r.ID)
				}
			}
		}
		if err := c.checkLatest(ctx, "resume", open); err != nil {
			return err
		}
		return c.run(ctx)
	})
}

// checkLatest refuses an operation that would write keys on hosts on which a later rollout has,
// or may have, written them.
func (c *course) checkLatest(ctx context.Context, operation string, labels []string) error {
	all, err := c.Rollouts(ctx)
	if err != nil {
		return err
	}
	for _, later := range all {
		if later.ID <= c.r.ID || later.State == Undone {
			continue
		}
		hosts, err := c.Hosts(ctx, later)
		if err != nil {
			return err
		}
		for _, l := range labels {
			there, is := hosts[l]
			if !is || !there.mayHold() {
				continue
			}
			if key := common(c.r, c.hosts[l], later, there); key != "" {
				return fmt.Errorf("%s rollout %s: %w: rollout %s has changed %s on %s; undo %s first, or start a new rollout",
					operation, c.r.ID, ErrLater, later.ID, key, l, later.ID)
			}
		}
	}
	return nil
}

// mayHold reports whether a host may hold what its rollout wrote.
func (h Host) mayHold() bool {
	switch h.State {
	case Waiting, record.Reverted, record.Refused, record.Restored:
		return false
	}
	return true
}

// common finds a key that two rollouts write on a host, "" if there is none.
func common(a *Rollout, onA Host, b *Rollout, onB Host) string {
	written := map[string]bool{}
	for _, k := range onA.keys(a) {
		written[k] = true
	}
	for _, k := range onB.keys(b) {
		if written[k] {
			return strings.TrimPrefix(k, configPrefix)
		}
	}
	return ""
}

// The store keeps intent and apply-sets below these.
const (
	configPrefix = "config/"
	setPrefix    = "applyset/"
)

// keys are those of the store that a rollout writes on a host, or has written.
func (h Host) keys(r *Rollout) []string {
	var out []string
	for _, i := range h.Items {
		out = append(out, configPrefix+i.Key)
	}
	for _, c := range h.Changes {
		out = append(out, c.Key)
	}
	if r.Set != "" {
		out = append(out, setPrefix+r.Set)
	}
	return out
}

// run carries the rollout out.
func (c *course) run(ctx context.Context) error {
	err := c.load(ctx)
	if err == nil {
		err = c.pickUp(ctx)
	}
	if err != nil {
		return err
	}
	c.r.State, c.r.Reason = Running, ""
	for ; c.r.Next < len(c.r.Waves); c.r.Next++ {
		if why, err := c.wave(ctx); err != nil || why != "" {
			return c.halt(ctx, why, err)
		}
	}
	c.r.State = Done
	return c.save(ctx, c.r)
}

// halt writes down that the rollout does not go on, and why.
func (c *course) halt(ctx context.Context, why string, err error) error {
	switch {
	case ctx.Err() != nil:
		why = "it was interrupted"
		if !errors.Is(err, context.Cause(ctx)) { // a call of etcd was, which tells it in words
			err = errors.Join(context.Cause(ctx), err)
		}
	case why == "":
		why = err.Error()
	}
	c.r.State, c.r.Reason = Halted, why
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	return errors.Join(err, c.save(ctx, c.r))
}

// open are the hosts of the next wave that do not have the change to stay.
func (c *course) open() (out []string) {
	if c.r.Next < len(c.r.Waves) {
		for _, l := range c.r.Waves[c.r.Next] {
			if c.hosts[l].State != record.Kept {
				out = append(out, l)
			}
		}
	}
	return out
}

// pickUp finds out how far the wave is at which somebody else stopped, and ends what still
// waits there.
func (c *course) pickUp(ctx context.Context) error {
	if c.r.Attempt == 0 {
		return nil
	}
	open := c.open()
	last, err := c.outcomes(ctx, open)
	if err != nil {
		return err
	}
	var waits []string
	for _, l := range open {
		switch o := last[l]; {
		case o.Rollout != c.r.ID:
		case o.Phase == record.Kept:
			c.note(l, record.Kept, o)
		case o.Phase == record.Trying || o.Phase == record.Healthy:
			waits = append(waits, l)
		}
	}
	if err := c.saveHosts(ctx, open); err != nil || len(waits) == 0 {
		return err
	}
	c.tell(fmt.Sprintf("%s of an earlier try: it is taken back first", strings.Join(waits, ", ")))
	_, err = c.abort(ctx, waits)
	return err
}

// wave tries the next wave, and has it stay if all of it is healthy; why is what was not.
func (c *course) wave(ctx context.Context) (why string, err error) {
	open := c.open()
	c.r.Attempt++
	if err := c.save(ctx, c.r); err != nil {
		return "", err
	}
	for _, l := range open {
		h := c.hosts[l]
		if !h.mayHold() {
			h.Changes = nil // of an earlier try, which was taken back
		}
		h.State, h.Reason, h.Notes = Waiting, "", nil
		c.hosts[l] = h
	}
	c.asked = c.Now()
	c.tell(fmt.Sprintf("wave %d of %d: %s", c.r.Next+1, len(c.r.Waves), strings.Join(open, ", ")))
	err = c.ask(ctx, open, func(l string) record.Request {
		return record.Request{Phase: record.Try, Seconds: c.r.Seconds, PendingOK: c.r.PendingOK, Probes: c.r.Probes, Message: c.r.Message, Items: c.hosts[l].Items, Set: c.r.Set, Prune: c.r.Prune}
	})
	if err == nil {
		why, err = c.follow(ctx, open, record.Healthy, time.Duration(c.r.Seconds)*time.Second+grace)
	}
	if err == nil && why == "" {
		// What is needed to undo it is written down before it stays.
		if err = c.saveHosts(ctx, open); err == nil {
			err = c.ask(ctx, open, func(string) record.Request { return record.Request{Phase: record.Keep} })
		}
		if err == nil {
			why, err = c.follow(ctx, open, record.Kept, c.patience())
		}
	}
	if err == nil && why == "" {
		return "", c.saveHosts(ctx, open)
	}
	return why, errors.Join(err, c.giveUp(ctx, open))
}

// giveUp takes a wave back; it is done also when the operator has gone away.
func (c *course) giveUp(ctx context.Context, labels []string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace+saveTime)
	defer cancel()
	var back []string
	for _, l := range labels {
		if s := c.hosts[l].State; s != record.Kept && s != record.Reverted && s != record.Refused {
			back = append(back, l)
		}
	}
	silent, err := c.abort(ctx, back)
	if len(silent) > 0 {
		c.tell(fmt.Sprintf("%s: no answer; what was tried there goes back by itself", strings.Join(silent, ", ")))
	}
	return errors.Join(err, c.saveHosts(ctx, labels))
}

// abort has hosts take back what waits there, and waits until they have.
func (c *course) abort(ctx context.Context, labels []string) (silent []string, err error) {
	if len(labels) == 0 {
		return nil, nil
	}
	if err := c.ask(ctx, labels, func(string) record.Request { return record.Request{Phase: record.Abort} }); err != nil {
		return nil, err
	}
	unheard := c.asked.Add(c.confirm())
	if soon := c.Now().Add(unheardTime); unheard.Before(soon) {
		unheard = soon
	}
	for end := c.Now().Add(c.patience()); ; {
		last, err := c.outcomes(ctx, labels)
		if err != nil {
			return nil, err
		}
		silent = nil
		heard := false // of one that is silent
		for _, l := range labels {
			o := last[l]
			switch {
			case c.is(o) && (o.Phase == record.Reverted || o.Phase == record.Refused || o.Phase == record.Kept):
				if c.hosts[l].State != o.Phase {
					c.note(l, o.Phase, o)
				}
			default:
				silent = append(silent, l)
				heard = heard || c.is(o)
			}
		}
		if len(silent) == 0 || c.Now().After(end) || !heard && c.Now().After(unheard) {
			for _, l := range silent {
				c.note(l, Silent, record.Outcome{Reason: "it did not answer"})
			}
			return silent, nil
		}
		if err := c.pause(ctx); err != nil {
			return silent, err
		}
	}
}

// is reports whether an outcome is of the present attempt.
func (c *course) is(o record.Outcome) bool {
	return o.Rollout == c.r.ID && o.Attempt == c.r.Attempt
}

// follow waits until all hosts have come to a phase; why is the first that went elsewhere.
func (c *course) follow(ctx context.Context, labels []string, to string, limit time.Duration) (why string, err error) {
	began := c.Now()
	unheard := began.Add(min(limit, max(c.confirm(), unheardTime)))
	for end := began.Add(limit); ; {
		last, err := c.outcomes(ctx, labels)
		if err != nil {
			return "", err
		}
		left, silent := 0, 0
		for _, l := range labels {
			o := last[l]
			switch {
			case !c.is(o):
				left++
				silent++
			case o.Phase == record.Trying, o.Phase == record.Healthy && to != o.Phase:
				left++
			case c.hosts[l].State == o.Phase: // it is told
			default:
				c.note(l, o.Phase, o)
				if o.Phase != to && o.Phase != record.Kept && why == "" {
					why = fmt.Sprintf("%s: %s", l, o.Reason)
				}
			}
		}
		switch {
		case why != "" || left == 0:
			return why, nil
		case c.Now().After(end):
			return fmt.Sprintf("%d hosts did not answer in time", left), nil
		case silent > 0 && c.Now().After(unheard):
			return fmt.Sprintf("%d hosts did not answer within %s", silent, unheard.Sub(began)), nil
		}
		if err := c.pause(ctx); err != nil {
			return "", err
		}
	}
}

// confirm is how long hosts wait to be told that the change stays.
func (c *course) confirm() time.Duration { return time.Duration(c.r.Seconds) * time.Second }

// patience is for how long a host that has answered may take to keep or to take back: it is
// not worth more than the time to confirm.
func (c *course) patience() time.Duration { return min(grace, max(c.confirm(), 2*unheardTime)) }

func (c *course) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.lease.Lost():
		return dial.ErrLease
	case <-time.After(c.outcomeEvery):
		return nil
	}
}

// note notes how a host is, and tells it.
func (c *course) note(label, state string, o record.Outcome) {
	h := c.hosts[label]
	h.State, h.Reason, h.Notes = state, o.Reason, o.Notes
	h.Changes = merged(h.Changes, o.Changes)
	c.hosts[label] = h
	line := label + ": " + state
	if o.Reason != "" {
		line += ": " + o.Reason
	}
	for _, n := range o.Notes {
		line += "; " + n
	}
	c.tell(line)
}

// merged are the changes of an earlier try that may have stayed, with those of a newer one in
// their place.
func merged(old, now []record.Change) []record.Change {
	if len(now) == 0 {
		return old
	}
	out := slices.Clone(now)
	for _, c := range old {
		if !slices.ContainsFunc(now, func(n record.Change) bool { return n.Key == c.Key }) {
			out = append(out, c)
		}
	}
	return out
}

func (c *course) saveHosts(ctx context.Context, labels []string) error {
	puts := make([]put, len(labels))
	for i, l := range labels {
		puts[i] = put{hostPrefix + c.r.ID + "/" + l, c.hosts[l]}
	}
	return c.putAll(ctx, puts, nil)
}

// ask asks hosts for something, for as long as we are there.
func (c *course) ask(ctx context.Context, labels []string, request func(label string) record.Request) error {
	puts := make([]put, len(labels))
	for i, l := range labels {
		r := request(l)
		r.Rollout, r.Attempt, r.By = c.r.ID, c.r.Attempt, c.by
		puts[i] = put{below(l, record.RequestKey), r}
	}
	return c.putAll(ctx, puts, c.lease)
}

// outcomes are what the hosts last told; one that cannot be read is as none.
func (c *course) outcomes(ctx context.Context, labels []string) (map[string]record.Outcome, error) {
	texts, err := c.getAll(ctx, labels, record.OutcomeKey)
	if err != nil {
		return nil, err
	}
	out := map[string]record.Outcome{}
	for l, text := range texts {
		var o record.Outcome
		if json.Unmarshal(text, &o) == nil {
			out[l] = o
		}
	}
	return out, nil
}

// Undo brings back what was before a rollout, on all hosts that it has changed. It is refused
// with ErrLater if a later rollout has changed the same keys.
func (f *Fleet) Undo(ctx context.Context, r *Rollout, by string, tell func(string)) error {
	return f.carry(ctx, r, by, tell, func(ctx context.Context, c *course) error {
		if err := errors.Join(c.load(ctx), c.pickUp(ctx)); err != nil {
			return err
		}
		var back, unchanged []string
		for _, wave := range r.Waves {
			for _, l := range wave {
				// One that is not known to be kept may be so: its answer got lost.
				switch h := c.hosts[l]; {
				case len(h.Changes) > 0 && h.State != record.Restored:
					back = append(back, l)
				case h.mayHold():
					unchanged = append(unchanged, l)
				}
			}
		}
		if err := c.checkLatest(ctx, "undo", back); err != nil {
			return err
		}
		for _, l := range unchanged {
			h := c.hosts[l]
			h.State = record.Restored
			c.hosts[l] = h
		}
		if err := c.saveHosts(ctx, unchanged); err != nil {
			return err
		}
		r.Attempt++
		if err := c.save(ctx, r); err != nil {
			return err
		}
		err := c.ask(ctx, back, func(l string) record.Request {
			return record.Request{Phase: record.Restore, Changes: c.hosts[l].Changes}
		})
		if err != nil {
			return err
		}
		why, err := c.restored(ctx, back)
		if err == nil && why == "" {
			r.State, r.Reason = Undone, ""
			return errors.Join(c.saveHosts(ctx, back), c.save(ctx, r))
		}
		return errors.Join(c.saveHosts(ctx, back), c.halt(ctx, why, err))
	})
}

// restored waits until all hosts have brought back what was.
func (c *course) restored(ctx context.Context, labels []string) (why string, err error) {
	told := map[string]bool{}
	for end := c.Now().Add(2 * grace); ; {
		last, err := c.outcomes(ctx, labels)
		if err != nil {
			return "", err
		}
		for _, l := range labels {
			o := last[l]
			if told[l] || !c.is(o) || o.Phase != record.Restored && o.Phase != record.Refused {
				continue
			}
			told[l] = true
			if o.Phase == record.Restored {
				c.note(l, record.Restored, o)
				continue
			}
			why = fmt.Sprintf("%s is not undone: %s", l, o.Reason)
			c.tell(why)
		}
		switch {
		case len(told) == len(labels):
			return why, nil
		case c.Now().After(end):
			return fmt.Sprintf("%d hosts did not answer in time, and are not undone", len(labels)-len(told)), nil
		}
		if err := c.pause(ctx); err != nil {
			return why, err
		}
	}
}
