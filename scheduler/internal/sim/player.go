package sim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing/synctest"
	"time"

	"github.com/plumb-net/plumb/scheduler"
	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Player plays steps on a World and a scheduler, inside a bubble of
// testing/synctest. When the scheduler's process crashes, a new one is started
// before the next step. Close it at the end.
type Player struct {
	World     *schedulertest.World
	Scheduler *scheduler.Scheduler
	Model     *Model
	Sources   []string
	// Tally counts steps, states and what happened.
	Tally *schedulertest.Tally

	kinds   []kindState
	workers int
	options scheduler.Options // policies and grace
	watched bool
	stop    func() error
	pauses  map[scheduler.Key]bool
	silent  []string // sources that have not synced
	watcher *follower
	held    map[scheduler.Key]bool // too many went at once: they are there until that is allowed
	byOwner map[scheduler.Key]bool // withdrawn by their owner, and not wanted since
	crashed bool                   // at least once
}

type kindState struct {
	name       string
	options    schedulertest.Options
	registered bool
}

// NewPlayer makes a player; its first step should be "setup".
func NewPlayer() *Player { return &Player{Tally: schedulertest.NewTally()} }

// Play plays the steps and heals. The error is a *[Failure] if
// something is wrong with the scheduler, any other if the steps make no sense.
func (p *Player) Play(steps []Step) error {
	for i := range steps {
		if p.World != nil {
			p.World.Note(oneLine{&steps[i]})
		}
		if err := p.Do(steps[i]); err != nil {
			return err
		}
	}
	return p.Heal()
}

// Do plays one step and, unless it says "nowait", waits until nothing moves:
//
//	setup            lines: "sources strong weak", "workers 3", "watched",
//	                 "silent", "policy a/ drift=alert hold-down=5s audit=1m"
//	                 ("all" for every key), "grace 1m", and kinds, see ParseKind
//	txn              see Step.ParseTxn; "result" waits until it is settled, "planned"
//	                 too, and executes a plan that was made of it
//	plan             a preview of a transaction
//	put, foreign     "key THING [untold]": it comes or changes behind our back;
//	                 foreign: it is somebody else's
//	change           "key text [untold]": only its text changes, if it is there
//	take             "key [untold]": it goes, with all that depends on it
//	                 Of all of them "by=NAME" before "untold" tells who did it
//	fault            see ParseOrder; "none" takes all orders back
//	release          what hangs goes on
//	letgo            what is held back, being too many at once, may go
//	wait 3s          time passes
//	pause KEY REASON [3s], resume KEY, retry KEY
//	unregister KIND; register: a line as in "setup"
//	restart          a new scheduler on the same system, to which the sources say
//	                 what they want; "empty": they want nothing any more;
//	                 "silent": they say nothing, until: speak
//	heal             see Heal
func (p *Player) Do(s Step) error {
	p.Tally.Count("step", s.Do)
	if s.Do != "setup" {
		if p.World == nil {
			return fmt.Errorf("there is no setup yet")
		}
		if err := p.revive(); err != nil {
			return err
		}
	}
	if err := p.do(s); err != nil {
		return err
	}
	if s.Has("nowait") {
		return nil
	}
	return p.settle()
}

func (p *Player) do(s Step) error {
	if !keepsBound(s) {
		p.World.Bound(0)
	}
	switch s.Do {
	case "setup":
		return p.begin(s.Lines)
	case "txn", "plan":
		return p.txn(s)
	case "put", "take", "foreign", "change":
		return p.move(s)
	case "fault":
		return p.order(s.Lines)
	case "release":
		return p.release()
	case "letgo":
		return p.letGo()
	case "restart":
		if s.Has("empty") {
			p.Model.Clear()
			p.World.Claim(p.Model.valid)
		}
		return p.restart(s.Has("silent"))
	case "speak":
		for _, name := range slices.Clone(p.silent) {
			p.speak(name)
		}
	case "register", "unregister":
		return p.register(s)
	case "heal":
		return p.Heal()
	default:
		return p.operate(s)
	}
	return nil
}

// keepsBound reports whether things go no faster than they may, and when it is their turn, in
// spite of a step. A pause holds up what has had its turn, and what others do, or a fault, does
// the same or gives things another turn; a plan goes at once.
func keepsBound(s Step) bool {
	switch s.Do {
	case "setup", "wait", "heal", "retry":
		return true
	case "txn", "plan":
		return !s.Has("planned")
	case "put", "take":
		return !slices.ContainsFunc(s.Lines, func(l string) bool { return !strings.HasPrefix(l, "o/") })
	}
	return false
}

// operate is what an operator does, or time.
func (p *Player) operate(s Step) error {
	if len(s.Args) == 0 {
		return fmt.Errorf("%s what?", s.Do)
	}
	key := scheduler.Key(s.Args[0])
	switch s.Do {
	case "wait":
		d, err := time.ParseDuration(s.Args[0])
		if err != nil {
			return err
		}
		time.Sleep(d)
	case "pause":
		return p.pause(key, s.Args[1:])
	case "resume":
		delete(p.pauses, key)
		return resume(p.Scheduler, key)
	case "retry":
		p.Scheduler.Retry(key)
	default:
		return fmt.Errorf("no step is called %q", s.Do)
	}
	return nil
}

// release lets what hangs go on. All that changes by that followed by itself, so it must
// have been told busy.
func (p *Player) release() error {
	if err := p.settle(); err != nil {
		return err
	}
	before, err := p.Scheduler.List(context.Background())
	if err != nil {
		return err
	}
	doubtful := p.World.Doubtful() || slices.ContainsFunc(before, func(s scheduler.Status) bool {
		switch s.State { // what goes wrong counts as at rest, and may come right by what others do
		case scheduler.Retrying, scheduler.Failed, scheduler.InvalidState, scheduler.Unknown, scheduler.Drifted:
			return true
		}
		return false
	})
	p.World.Release()
	if err := p.settle(); err != nil || doubtful || p.crashed {
		return err
	}
	for _, was := range before {
		now, err := p.Scheduler.Get(context.Background(), was.Key)
		if err != nil && !errors.Is(err, scheduler.ErrUnknownKey) {
			return err
		}
		lost := now.State == scheduler.InvalidState // its name, to one that was being made
		if !was.Busy && now.State != was.State && !lost {
			return failure("busy", "%s was told to be %s and not busy, and became %s by itself (%s)", was.Key, was.State, now.State, now.Reason)
		}
	}
	return nil
}

func (p *Player) pause(key scheduler.Key, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("a pause has a reason")
	}
	var until time.Time
	if len(args) > 1 && args[1] != "nowait" {
		d, err := time.ParseDuration(args[1])
		if err != nil {
			return err
		}
		until = time.Now().Add(d)
	}
	p.pauses[key] = true
	return p.Scheduler.Pause(key, args[0], until)
}

// begin makes a system.
func (p *Player) begin(lines []string) error {
	if err := p.Close(); err != nil {
		return err
	}
	*p = Player{Tally: p.Tally, World: schedulertest.NewWorld(), Sources: []string{""}, workers: 1}
	p.World.Tally = p.Tally
	silent := false
	for _, l := range lines {
		switch f := strings.Fields(l); f[0] {
		case "sources":
			p.Sources = f[1:]
		case "silent":
			silent = true
		case "watched":
			p.watched = true
		case "workers":
			var err error
			if p.workers, err = strconv.Atoi(strings.Join(f[1:], "")); err != nil {
				return err
			}
		case "policy", "grace":
			if err := schedulertest.ParseOption(&p.options, f); err != nil {
				return err
			}
		default:
			name, o, err := schedulertest.ParseKind(l)
			if err != nil {
				return err
			}
			p.kinds = append(p.kinds, kindState{name, o, true})
		}
	}
	if len(p.Sources) == 0 {
		return fmt.Errorf("there must be a source")
	}
	p.Model = NewModel(len(p.Sources))
	if all := p.options.Policies; len(all) == 1 && all[0].Keys == "" {
		p.World.Bound(int(all[0].Disruptions))
	}
	return p.start(silent)
}

// start begins a process of the scheduler.
func (p *Player) start(silent bool) error {
	o := p.options
	o.Sources, o.Workers, o.HistoryCount = p.Sources, p.workers, 200
	o.Rand = func() float64 { return 0.5 }
	p.Scheduler = scheduler.New(o)
	p.pauses, p.held, p.byOwner = map[scheduler.Key]bool{}, map[scheduler.Key]bool{}, map[scheduler.Key]bool{}
	for i := range p.kinds {
		k := &p.kinds[i]
		k.registered = true
		if _, err := scheduler.Register(p.Scheduler, p.World.Kind(k.name, k.options)); err != nil {
			return err
		}
		p.Model.Register(k.name, k.options.DerivedTo)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	s := p.Scheduler
	go func() { done <- s.Run(ctx) }()
	if p.watched {
		p.watcher = follow(s, p.Tally)
	}
	p.stop = func() error {
		cancel()
		err := <-done
		if p.watcher != nil {
			<-p.watcher.ended
		}
		return err
	}
	p.silent = slices.Clone(p.Sources)
	p.World.Mute(silent)
	if !silent {
		for _, name := range p.Sources {
			p.speak(name)
		}
	}
	return nil
}

// speak says all that a source wants.
func (p *Player) speak(source string) {
	i := slices.Index(p.Sources, source)
	t := scheduler.Txn{Source: source, Complete: true}
	for _, k := range sortedKeys(p.Model.Wants[i]) {
		t.Want = append(t.Want, p.Model.Wants[i][k].change(k))
	}
	p.say(t)
}

// say submits a transaction.
func (p *Player) say(t scheduler.Txn) *scheduler.Handle {
	if len(t.Want) > 0 || t.Complete {
		p.World.Mute(false)
	}
	if t.Complete {
		p.silent = slices.DeleteFunc(p.silent, func(s string) bool { return s == t.Source })
	}
	return p.Scheduler.Submit(t)
}

// Close ends the scheduler. The error names what it left running.
func (p *Player) Close() error {
	if p.stop == nil {
		return nil
	}
	p.World.NoFaults()
	p.World.SetFault(nil)
	p.World.Release()
	stop := p.stop
	p.stop = nil
	return stop()
}

func (p *Player) restart(silent bool) error {
	err := p.stop()
	p.forget()
	if err := p.start(silent); err != nil {
		return err
	}
	if err != nil && !strings.Contains(err.Error(), "still run") {
		return err
	}
	return nil
}

// forget is for a new process, which knows nothing but what the sources say.
func (p *Player) forget() {
	p.World.NewProcess()
	p.Model.Forget()
	p.World.Claim(p.Model.valid)
}

// revive starts a new process where one has crashed. Who orders that every one
// crashes has ordered a history without end.
func (p *Player) revive() error {
	for lives := 0; p.World.Crashed(); lives++ {
		if lives == 1000 {
			return errors.New("each process crashes as the one before")
		}
		p.Tally.Count("crash", "")
		p.crashed = true
		_ = p.stop() // what it left running has no effect
		p.forget()
		if err := p.start(false); err != nil {
			panic(err) // it could the first time
		}
		synctest.Wait()
	}
	return nil
}

// settle waits until nothing moves.
func (p *Player) settle() error {
	synctest.Wait()
	if err := p.revive(); err != nil {
		return err
	}
	p.World.Settled()
	if broken := p.World.Broken(); len(broken) > 0 {
		return &Failure{What: "law", Text: strings.Join(broken, "; ")}
	}
	return p.checkHeld()
}

// note takes a transaction into the model, before the scheduler hears of it.
func (p *Player) note(source int, t scheduler.Txn) {
	p.Model.Note(source, t)
	p.World.Claim(p.Model.valid)
	p.wanted()
}

// Submit hands in the transaction of a step and notes it in the model.
func (p *Player) Submit(s Step) (*scheduler.Handle, error) {
	t, err := s.ParseTxn(p.Sources)
	if err != nil {
		return nil, err
	}
	if (t.LookAll || len(t.Look) > 0) && len(t.Want) == 0 && !s.Has("nowait") {
		if err := p.settle(); err != nil {
			return nil, err
		}
		p.World.Asked(t.LookAll, t.Look...)
	}
	if err := p.noteHeld(t); err != nil {
		return nil, err
	}
	return p.say(t), nil
}

// plan asks what a transaction would do. Where nothing moves, all is as it was then.
func (p *Player) plan(s Step) error {
	t, err := s.ParseTxn(p.Sources)
	if err != nil {
		return err
	}
	ctx := context.Background()
	if s.Has("nowait") {
		_, err = p.Scheduler.Preview(ctx, t)
		return err
	}
	if err := p.settle(); err != nil {
		return err
	}
	before, err := p.Scheduler.List(ctx)
	if err != nil {
		return err
	}
	if _, err := p.Scheduler.Preview(ctx, t); err != nil {
		return err
	}
	after, err := p.Scheduler.List(ctx)
	if slices.ContainsFunc(before, func(s scheduler.Status) bool { return s.Busy }) {
		return err // asking is a turn, in which more may begin
	}
	if err == nil && !reflect.DeepEqual(before, after) {
		return failure("preview", "a preview changed what is told:\n%+v\n%+v", before, after)
	}
	return err
}

const patience = 10 * time.Minute

func (p *Player) txn(s Step) error {
	if s.Do == "plan" {
		return p.plan(s)
	}
	if s.Has("planned") {
		return p.planned(s)
	}
	if !s.Has("revert") {
		h, err := p.Submit(s)
		if err != nil || !s.Has("result") {
			return err
		}
		_, err = p.await(h)
		return err
	}
	t, err := s.ParseTxn(p.Sources)
	if err != nil {
		return err
	}
	source := slices.Index(p.Sources, t.Source)
	if source < 0 {
		return fmt.Errorf("no source is called %q", t.Source)
	}
	undo := p.Model.Undo(source, t)
	p.Model.Note(source, t)
	p.wanted()
	sure := maps.Clone(p.Model.valid) // what it may take back is not claimed for certain
	for _, c := range t.Want {
		delete(sure, c.Key)
	}
	p.World.Claim(sure)
	r, err := p.await(p.say(t))
	defer func() { p.World.Claim(p.Model.valid) }()
	if err == nil && r.Reverted {
		p.Tally.Count("reverted", "")
		p.Model.Note(source, undo)
	}
	return err
}

// planned executes a plan as soon as it was made, or with "previewed" leaves it to the
// scheduler to make it. Where nothing else moves, it goes as it says.
func (p *Player) planned(s Step) error {
	t, err := s.ParseTxn(p.Sources)
	if err != nil {
		return err
	}
	if err := p.settle(); err != nil {
		return err
	}
	still := p.World.Still() && p.Model.foretells(t)
	plan, err := p.Scheduler.Preview(context.Background(), t)
	if err != nil {
		return err
	}
	if !t.AsPreviewed {
		t.Base = plan.Base
	} else if slices.ContainsFunc(p.options.Policies, func(p scheduler.Policy) bool { return p.Disruptions > 0 }) {
		still = false // a step may have to wait for its turn
	}
	source := slices.Index(p.Sources, t.Source)
	undo := p.Model.Undo(source, t)
	p.note(source, t)
	r, err := p.await(p.say(t))
	switch {
	case errors.Is(err, scheduler.ErrBaseMoved) && !still:
		p.note(source, undo)
		return nil
	case err != nil:
		return err
	case r.Deviation != nil && still:
		return failure("plan", "it was %v\n%s", r.Deviation, plan)
	case r.Deviation == nil && !t.AsPreviewed:
		p.Tally.Count("planned", "")
	}
	return nil
}

// foretells reports whether a plan can know what will come: not so if something is built with
// what operations leave. Of two ends that are made anew, what depends on one may be made
// once more than planned, or once less.
func (m *Model) foretells(t scheduler.Txn) bool {
	vague := func(v schedulertest.Thing) bool {
		return v.Peer != "" || slices.ContainsFunc(v.Needs, func(n string) bool { return strings.Contains(n, "#") })
	}
	for _, c := range t.Want {
		if v, ok := c.Value.(schedulertest.Thing); ok && vague(v) {
			return false
		}
	}
	for _, v := range m.valid {
		if vague(v) {
			return false
		}
	}
	return true
}

// await waits for a transaction to settle. What a crash cuts off is as good as
// settled; what hangs may hold it up: a read has no end of its own, nor has the
// lane of an operation that does not end.
func (p *Player) await(h *scheduler.Handle) (scheduler.Result, error) {
	for tries := 0; ; tries++ {
		for range int(patience / time.Minute) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			select {
			case <-h.Done():
			case <-ctx.Done():
			}
			cancel()
			if p.World.Crashed() {
				return scheduler.Result{}, nil
			}
			select {
			case <-h.Done():
				return h.Wait(context.Background())
			default:
			}
		}
		if tries > 0 || !p.World.Hanging() {
			return scheduler.Result{}, failure("unsettled", "a transaction was not settled in %v", patience)
		}
		p.World.NoFaults()
		p.World.Release()
	}
}

// move changes the World behind the scheduler's back.
func (p *Player) move(s Step) error {
	defer p.taken()
	for _, l := range s.Lines {
		f := strings.Fields(l)
		told := f[len(f)-1] != "untold"
		if !told {
			f = f[:len(f)-1]
		}
		if len(f) == 0 {
			return fmt.Errorf("%s what?", s.Do)
		}
		k := scheduler.Key(f[0])
		if by, known := strings.CutPrefix(f[len(f)-1], "by="); known {
			p.World.Blame(k, by)
			f = f[:len(f)-1]
		}
		if s.Do == "take" {
			p.World.Take(k, told)
			continue
		}
		t, err := schedulertest.ParseThing(f[1:])
		if err != nil {
			return err
		}
		switch s.Do {
		case "put":
			p.World.Put(k, t, told)
		case "foreign":
			p.World.SetForeign(k, t)
		case "change":
			if is, there := p.World.Objects()[k]; there {
				is.Text = t.Text
				p.World.Put(k, is, told)
			}
		}
	}
	return nil
}

func (p *Player) order(lines []string) error {
	for _, l := range lines {
		if l == "none" {
			p.World.NoFaults()
			continue
		}
		o, err := schedulertest.ParseOrder(l)
		if err != nil {
			return err
		}
		p.World.Order(o)
	}
	return nil
}

func (p *Player) register(s Step) error {
	if s.Do == "unregister" {
		if len(s.Args) == 0 {
			return fmt.Errorf("unregister what?")
		}
		i := slices.IndexFunc(p.kinds, func(k kindState) bool { return k.name == s.Args[0] })
		if i < 0 || !p.kinds[i].registered {
			return nil
		}
		p.kinds[i].registered = false
		p.World.ForgetKind(s.Args[0])
		p.Model.Unregister(s.Args[0])
		return p.Scheduler.Unregister(s.Args[0])
	}
	for _, l := range s.Lines {
		name, o, err := schedulertest.ParseKind(l)
		if err != nil {
			return err
		}
		if err := p.registerKind(name, o); err != nil {
			return err
		}
	}
	return nil
}

func (p *Player) registerKind(name string, o schedulertest.Options) error {
	i := slices.IndexFunc(p.kinds, func(k kindState) bool { return k.name == name })
	if i >= 0 && p.kinds[i].registered && p.crashed {
		return nil // the new process knows all kinds
	}
	if _, err := scheduler.Register(p.Scheduler, p.World.Kind(name, o)); err != nil {
		return err
	}
	if i < 0 {
		p.kinds = append(p.kinds, kindState{name, o, true})
	} else {
		p.kinds[i].registered = true
	}
	p.Model.Register(name, o.DerivedTo)
	return nil
}
