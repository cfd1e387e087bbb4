package container

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/models"
)

// TestStories plays the stories of testdata/stories: the directive `do` does
// things to the runtime line by line and prints which keys the watcher heard of after each
// line; `show` prints what is known; `events` what the observer was told since
// the last time; `health` how the runtime stands.
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			w := newStory(t)
			defer func() {
				w.stop()
				if w.engine.open != 0 {
					t.Errorf("%d processes are still held", w.engine.open)
				}
			}()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "do":
					return w.do(t, d.Input)
				case "show":
					return show(w.tracker)
				case "events":
					return w.takeEvents()
				case "health":
					return health(w.tracker)
				case "labels":
					return fmt.Sprintln(w.tracker.LabelHealth())
				}
				t.Fatalf("unknown directive %s", d.Cmd)
				return ""
			})
		})
	})
}

// story is a tracker of an engine in memory, and one who watches it.
type story struct {
	engine  *engine
	tracker *Tracker
	cancel  context.CancelFunc
	done    chan error

	mu     sync.Mutex
	heard  []string
	events []Event
	// options of the next tracker.
	options Options
	// told are all events, as a file keeps them over restarts of the agent.
	told []Event
}

func newStory(t testing.TB) *story {
	w := &story{engine: newEngine()}
	w.engine.prompt = true // the order of events is part of the story; TestRandomHistory mixes it
	if err := w.renew(); err != nil {
		t.Fatal(err)
	}
	return w
}

// renew makes a tracker that knows what was told before.
func (w *story) renew() (err error) {
	o := w.options
	o.Processes, o.Observer, o.Earlier, o.Spread = w.engine, w.observe, w.told, func() float64 { return 0.5 }
	w.tracker, err = New(o, w.engine)
	return err
}

func (w *story) observe(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
	w.told = append(w.told, e)
}

func (w *story) takeEvents() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out strings.Builder
	// Of different containers the order is chance.
	slices.SortStableFunc(w.events, func(a, b Event) int { return strings.Compare(a.ID, b.ID) })
	for _, e := range w.events {
		fmt.Fprintln(&out, e)
	}
	w.events = nil
	return out.String()
}

func (w *story) start() {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel, w.done = cancel, make(chan error, 2)
	go func() { w.done <- w.tracker.Watch(ctx, w.hear) }()
	go func() { w.done <- w.tracker.Run(ctx) }()
}

func (w *story) hear(keys ...string) {
	if len(keys) == 0 {
		keys = []string{"all"}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, keys...)
}

func (w *story) stop() {
	if w.cancel != nil {
		w.cancel()
		for range cap(w.done) {
			<-w.done
		}
		w.cancel = nil
	}
}

func (w *story) do(t testing.TB, input string) string {
	var out strings.Builder
	for _, line := range strings.Split(input, "\n") {
		if err := w.step(strings.Fields(line)); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		synctest.Wait()
		fmt.Fprintln(&out, strings.TrimRight(line+" -> "+strings.Join(w.takeHeard(), " "), " "))
	}
	return out.String()
}

// takeHeard returns what the watcher was told, without what depends on how
// quick it was.
func (w *story) takeHeard() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.Sort(w.heard)
	heard := slices.Compact(w.heard)
	w.heard = nil
	if slices.Contains(heard, "all") {
		return []string{"all"}
	}
	return heard
}

// step does one line of a story.
func (w *story) step(words []string) error {
	e, args := w.engine, words[1:]
	switch words[0] {
	case "track":
		w.start()
	case "agent":
		return w.agentStep(args[0])
	case "labels":
		return w.labelStep(args[0], args[1:])
	case "create", "run":
		e.create(newContainer(args))
		if words[0] == "run" {
			e.start(args[0])
		}
	case "start":
		e.start(args[0])
	case "kill":
		e.kill(args[0])
	case "restart":
		e.kill(args[0])
		e.start(args[0])
	case "exit":
		code, err := strconv.Atoi(args[1])
		e.exit(args[0], code)
		return err
	case "flash": // it runs and ends before anybody can look, as often as it has codes
		return w.flash(args[0], args[1:])
	case "shim": // it is killed: the event knows only that, the engine finds out
		e.set(func() { e.exitLocked(args[0], 255); e.containers[args[0]].ExitCode = 137 })
	case "later": // the engine writes down an end at another time than its event
		d, err := time.ParseDuration(args[1])
		e.set(func() { e.exitLocked(args[0], 0); e.containers[args[0]].FinishedAt = time.Now().Add(-d) })
		return err
	case "oom": // as the engine tells: first that, then the death
		e.set(func() { e.says(OOM, args[0], 0); e.containers[args[0]].Reason = "" })
	case "report":
		return w.report(args[0], args[1:])
	case "name": // the log names whom a counter had told of
		pid, err := strconv.Atoi(args[1])
		w.tracker.ReportOOM(OOMKill{At: time.Now(), Container: args[0], Source: "kmsg", Process: "sh", Pid: pid, Amends: true})
		return err
	case "pause", "unpause":
		state := map[string]string{"pause": "paused", "unpause": "running"}[words[0]]
		e.change(args[0], func(c *Container) { c.State = state })
	case "rename":
		e.change(args[0], func(c *Container) { c.Name = args[1] })
	case "image":
		e.change(args[0], func(c *Container) { c.Image = args[1] })
	case "state":
		e.change(args[0], func(c *Container) { c.State = args[1] })
	case "forget":
		return e.forget(args[0], args[1])
	case "rm":
		e.remove(args[0])
	case "wait":
		d, err := time.ParseDuration(args[0])
		time.Sleep(d)
		return err
	case "hint":
		e.set(func() { e.tell(Hint{ID: args[0]}) })
	case "cut":
		e.cut()
	case "engine":
		return w.engineStep(args[0])
	case "events":
		return w.eventStep(args[0])
	case "inspect":
		return w.inspectStep(args[0], args[1])
	case "pid":
		return w.pidStep(args[0], args[1])
	default:
		return errors.New("no such step")
	}
	return nil
}

// flash has a container run and end in no time.
func (w *story) flash(id string, codes []string) error {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	for _, c := range codes {
		if c == "rm" {
			w.engine.says(Removed, id, 0)
			delete(w.engine.containers, id)
			return nil
		}
		code, err := strconv.Atoi(c)
		if err != nil {
			return err
		}
		w.engine.startLocked(id)
		w.engine.exitLocked(id, code)
	}
	return nil
}

// report tells of a kill for want of memory as the kernel does: of the first
// process of the container unless another pid is named, of an unknown one by 0. "all"
// is a cgroup that is killed as one.
func (w *story) report(id string, args []string) error {
	w.engine.mu.Lock()
	k := OOMKill{At: time.Now(), Container: id, Source: "kmsg", Process: "sh"}
	if c := w.engine.containers[id]; c != nil {
		k.Pid = c.Pid
	}
	w.engine.mu.Unlock()
	var err error
	if len(args) > 0 {
		k.Pid, err = strconv.Atoi(args[0])
		k.All = len(args) > 1 && args[1] == "all"
	}
	if k.Pid == 0 {
		k.Source, k.Process = fromCounter, ""
	}
	w.tracker.ReportOOM(k)
	return err
}

// newContainer reads `id name=value…`.
func newContainer(args []string) *Container {
	c := &Container{ID: args[0], Name: args[0], Image: "bb", State: "created", Labels: map[string]string{}}
	for _, arg := range args[1:] {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "env":
			c.Env = []string{"PATH=/bin", "MICROSERVICE_LABEL=" + value}
		case "label":
			c.Labels["plumb.microservice"] = value
		case "host":
			c.HostNetwork = true
		case "joins":
			c.Joins = value
		}
	}
	return c
}

func (w *story) engineStep(what string) error {
	e := w.engine
	switch what {
	case "down", "absent":
		e.set(func() { e.down, e.absent = what == "down", what == "absent" })
		e.cut()
	case "hang":
		e.set(func() { e.hung = true })
	case "slow":
		e.set(func() { e.slowList = true })
	case "nolist":
		e.set(func() { e.listErr = errors.New("internal error") })
	case "up":
		e.set(func() { e.down, e.absent, e.hung, e.listErr, e.slowList = false, false, false, nil, false })
	default:
		return errors.New("no such state")
	}
	return nil
}

// labelStep sets what the next tracker makes of service labels.
func (w *story) labelStep(what string, args []string) error {
	switch what {
	case "newest", "incumbent":
		w.options.Labels.Incumbent = what == "incumbent"
	case "env":
		w.options.LabelEnv = args[0]
	case "label":
		w.options.LabelKey = args[0]
	case "carrier":
		c := LabelCarrier{Label: args[0]}
		for _, arg := range args[1:] {
			name, value, _ := strings.Cut(arg, "=")
			*map[string]*string{"runtime": &c.Runtime, "namespace": &c.Namespace, "name": &c.Name, "image": &c.Image}[name] = value
		}
		w.options.Labels.Carriers = append(w.options.Labels.Carriers, c)
	default:
		return errors.New("no such rule")
	}
	return nil
}

// agentStep ends the tracker, or begins the next one: with what was told before,
// or, where that is lost, without.
func (w *story) agentStep(what string) error {
	switch what {
	case "stops":
		w.stop()
		return nil
	case "forgets":
		w.told = nil
		return nil
	case "starts":
		if err := w.renew(); err != nil {
			return err
		}
		w.start()
		return nil
	}
	return errors.New("no such state")
}

func (w *story) eventStep(what string) error {
	e := w.engine
	switch what {
	case "lost":
		e.set(func() { e.mute = true })
	case "held":
		e.set(func() { e.keep = true })
	case "released":
		e.release()
	case "back":
		e.set(func() { e.mute = false })
	case "bare":
		e.set(func() { e.bareHints = true })
	case "full":
		e.set(func() { e.bareHints = false })
	default:
		return errors.New("no such state")
	}
	return nil
}

func (w *story) inspectStep(what, id string) error {
	e := w.engine
	switch what {
	case "fails":
		e.set(func() { e.badInspect[id] = errors.New("internal error") })
	case "hangs":
		e.set(func() { e.hungInspect[id] = true })
	case "slow":
		e.set(func() { e.slowInspect[id] = true })
	case "works":
		e.set(func() { delete(e.badInspect, id); delete(e.hungInspect, id); delete(e.slowInspect, id) })
	case "stale":
		e.set(func() { e.stale[id] = slices.Repeat([]Container{*e.containers[id]}, 6) })
	default:
		return errors.New("no such state")
	}
	return nil
}

// pidStep plays with the process of a container behind the engine's back.
func (w *story) pidStep(what, id string) error {
	e := w.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	pid := e.containers[id].Pid
	if pid == 0 {
		pid = e.lastPid // of a run that the engine forgot
	}
	switch what {
	case "hidden":
		delete(e.processes, pid)
	case "reused": // the number now belongs to a process of another container
		e.processes[pid] = &process{netns: 666, cgroup: "0::/docker/" + strings.Repeat("f", 64)}
	case "taken": // the number now belongs to a process that could be anybody's
		e.processes[pid] = &process{netns: 666, cgroup: "0::/"}
	case "quiet": // its end will not be told
		e.processes[pid].ended = nil
	case "nocgroup":
		e.processes[pid].cgroup = "0::/"
	case "exits": // with nobody telling
		ended := e.end(pid)
		for _, f := range ended {
			go f()
		}
	default:
		return errors.New("no such state")
	}
	return nil
}

// show prints what is known as a table.
func show(t *Tracker) string {
	var out strings.Builder
	containers, unknown := t.Containers()
	for _, id := range slices.Sorted(maps.Keys(containers)) {
		fmt.Fprintln(&out, containerText(id, containers[id]))
	}
	services, _ := t.Microservices()
	for _, label := range slices.Sorted(maps.Keys(services)) {
		fmt.Fprint(&out, serviceText(label, services[label]))
	}
	if unknown != nil {
		fmt.Fprintln(&out, unknown)
	}
	if out.Len() == 0 {
		return "nothing\n"
	}
	return out.String()
}

func containerText(id string, v *models.Container) string {
	if v == nil {
		return "container " + id + " gone"
	}
	text := fmt.Sprintf("container %s %s", id, v.State)
	if v.Pid != 0 {
		text += fmt.Sprintf(" pid=%d netns=%d", v.Pid, v.Netns)
	}
	if v.ExitCode != 0 {
		text += fmt.Sprintf(" exit=%d", v.ExitCode)
	}
	for name, all := range map[string][]string{"addresses": v.Addresses, "last": v.LastAddresses} {
		if len(all) > 0 {
			text += " " + name + "=" + strings.Join(all, ",")
		}
	}
	if v.NetworkOwner != "" {
		text += " shares=" + v.NetworkOwner
	}
	if len(v.NetworkMembers) > 0 {
		text += " members=" + strings.Join(v.NetworkMembers, ",")
	}
	if v.Error != "" {
		text += ", inspect fails: " + v.Error
	}
	for _, s := range []string{v.Reason, v.Refused, v.LabelRefused} {
		if s != "" {
			text += ", " + s
		}
	}
	return text
}

func serviceText(label string, v *models.Microservice) string {
	if v == nil {
		return "microservice " + label + " gone\n"
	}
	text := fmt.Sprintf("microservice %s by %s pid=%d netns=%d\n", label, v.ContainerId, v.Pid, v.Netns)
	if v.Refused != "" {
		text += "  refused: " + v.Refused + "\n"
	}
	for _, c := range v.Conflicts {
		text += "  conflict: " + c + "\n"
	}
	return text
}

func health(t *Tracker) string {
	var out strings.Builder
	for _, h := range t.Health() {
		fmt.Fprintf(&out, "%s %s %s\n", h.Name, h.State, h.Reason)
		for _, k := range []string{"containers", "running", "streaming", "version"} {
			fmt.Fprintf(&out, "  %s=%s\n", k, h.Details[k])
		}
	}
	return out.String()
}
