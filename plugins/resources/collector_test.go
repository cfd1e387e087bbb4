package resources

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/resources/cgroup"
	"github.com/plumb-net/plumb/plugins/resources/disk"
)

// fakes are a tracker, a kernel and a clock.
type fakes struct {
	known   map[string]*models.Container
	unknown error
	clock   time.Time
	// used and memory are what the one cgroup of each container says, by its path.
	used   map[string]time.Duration
	memo   map[string]uint64
	reads  map[string]int
	netdev map[int][]cgroup.Interface
	// written is what each process wrote, walks how often somebody looked, walkTakes how
	// long that takes.
	written   map[int]uint64
	walks     map[int]int
	walkTakes time.Duration
	// cgroups are those that there are beside the one of each container, and the machine's.
	cgroups []string
}

func newFakes() (*fakes, *Collector) {
	w := &fakes{
		known: map[string]*models.Container{}, clock: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
		used: map[string]time.Duration{}, memo: map[string]uint64{}, reads: map[string]int{}, netdev: map[int][]cgroup.Interface{},
		written: map[int]uint64{}, walks: map[int]int{},
	}
	return w, newCollector(w, 10*time.Second, 2, w, func() time.Time { return w.clock })
}

func (w *fakes) Containers() (map[string]*models.Container, error) { return w.known, w.unknown }
func (w *fakes) Watch(ctx context.Context, _ func(keys ...string)) error {
	<-ctx.Done()
	return ctx.Err()
}
func (w *fakes) memory() uint64 { return 1 << 30 }
func (w *fakes) netns() uint64  { return 1 }

func (w *fakes) find(_ int, _ uint64, id string) (cgroup.Group, error) {
	if id == "host" {
		return cgroup.Group{}, errors.New("it has no cgroup of its own")
	}
	return cgroup.Group{Path: "/" + id}, nil
}

func (w *fakes) root() (cgroup.Group, bool) { return cgroup.Group{Path: "/"}, len(w.cgroups) > 0 }

// below is the law of cgroup.Below, on names alone.
func (w *fakes) below(g cgroup.Group, depth, most int, skip func(string) bool) (all []cgroup.Group, more int) {
	for _, path := range w.cgroups {
		rest, in := strings.CutPrefix(path, strings.TrimSuffix(g.Path, "/")+"/")
		for dir := path; dir != g.Path && in; dir = filepath.Dir(dir) {
			in = !skip(dir)
		}
		switch {
		case !in || rest == "":
		case strings.Count(rest, "/") >= depth || len(all) == most:
			more++
		default:
			all = append(all, cgroup.Group{Path: path})
		}
	}
	return all, more
}

func (w *fakes) uplinks() ([]cgroup.Interface, error) {
	return []cgroup.Interface{{Name: "uplink"}}, nil
}

func (w *fakes) filesystems() ([]disk.Usage, error) { return []disk.Usage{{Point: "/"}}, nil }

func (w *fakes) layer(_ context.Context, pid int, _ uint64) (disk.Usage, error) {
	w.walks[pid]++
	used, there := w.written[pid]
	if !there {
		return disk.Usage{}, disk.ErrNoLayer
	}
	w.clock = w.clock.Add(w.walkTakes)
	return disk.Usage{Used: used}, nil
}

func (w *fakes) stats(g cgroup.Group) (cgroup.Stats, error) {
	w.reads[g.Path]++
	used, there := w.used[g.Path]
	if !there {
		return cgroup.Stats{}, cgroup.ErrGone
	}
	return cgroup.Stats{CPU: &cgroup.CPU{Usage: used}, Memory: &cgroup.Memory{WorkingSet: w.memo[g.Path]}}, nil
}

func (w *fakes) limits(cgroup.Group) (cgroup.Limits, error) {
	return cgroup.Limits{Memory: 2 << 20, MemoryAllowed: 1 << 20}, nil
}

func (w *fakes) interfaces(pid int, _ uint64) ([]cgroup.Interface, error) { return w.netdev[pid], nil }

// run is a container that runs.
func (w *fakes) run(id string, pid uint32) *models.Container {
	c := &models.Container{Runtime: "docker", ContainerId: id, Pid: pid, Netns: uint64(pid), State: "running", StartedAt: w.clock.Format(time.RFC3339Nano)}
	w.known["docker:"+id], w.used["/"+id] = c, 0
	return c
}

// pass lets time pass, in which the collector does what is due.
func (w *fakes) pass(c *Collector, d time.Duration) {
	for end := w.clock.Add(d); ; {
		next := w.clock.Add(c.work())
		if next.After(end) {
			w.clock = end
			return
		}
		w.clock = next
	}
}

// TestPace: what is busy is sampled each interval, what is idle more and more seldom,
// what somebody looks at as often as he does, but not within a second.
func TestPace(t *testing.T) {
	w, c := newFakes()
	w.run("busy", 10)
	w.run("idle", 11)
	c.follow()
	for range 60 {
		w.used["/busy"] += 5 * time.Second
		w.pass(c, 10*time.Second)
	}
	if n := w.reads["/busy"]; n < 59 || n > 61 {
		t.Errorf("what is busy was sampled %d times in 10 minutes", n)
	}
	if n := w.reads["/idle"]; n < 20 || n > 23 {
		t.Errorf("what is idle was sampled %d times in 10 minutes", n)
	}
	before := w.reads["/idle"]
	for range 50 {
		c.Latest()
		w.clock = w.clock.Add(100 * time.Millisecond)
	}
	if n := w.reads["/idle"] - before; n < 4 || n > 5 {
		t.Errorf("it was sampled %d times for who asked for 5 s", n)
	}
	d, _ := c.Detail("docker:busy")
	if cpu := d.Hour.CPU; cpu.P50 != 500_000_000 || cpu.Max < 500_000_000 {
		t.Errorf("half a processor is %+v", cpu)
	}
}

// TestRuns: a series is of one run: it begins and ends with it, and what it held can be
// asked for until the container is gone.
func TestRuns(t *testing.T) {
	w, c := newFakes()
	began := w.clock
	web := w.run("web", 10)
	c.follow()
	w.pass(c, time.Minute)
	d, ok := c.Detail("docker:web")
	if !ok || !d.Start.Equal(began) || !d.End.IsZero() || d.Samples == 0 || d.MemoryBound != 1<<20 || d.Cgroup != "/web" {
		t.Fatalf("%v %+v", ok, d.Latest)
	}
	samples := d.Samples

	delete(w.used, "/web") // the kernel is first
	w.pass(c, time.Minute)
	if d, _ = c.Detail("docker:web"); d.Samples != samples {
		t.Errorf("%d samples after %d, of a cgroup that is gone", d.Samples, samples)
	}
	ended := &models.Container{Runtime: web.Runtime, ContainerId: web.ContainerId, StartedAt: web.StartedAt, FinishedAt: began.Add(70 * time.Second).Format(time.RFC3339Nano)}
	w.known["docker:web"] = ended
	c.follow()
	d, ok = c.Detail("docker:web")
	if !ok || d.End.Sub(d.Start) != 70*time.Second || d.Samples != samples || d.Last == nil {
		t.Errorf("it ended: %v %+v", ok, d.Latest)
	}
	if all := c.Latest(); len(all) != 0 {
		t.Errorf("what has ended runs: %+v", all)
	}
	w.run("web", 20)
	c.follow()
	if d, _ = c.Detail("docker:web"); !d.End.IsZero() || d.Samples != 1 || !d.Start.Equal(w.clock) {
		t.Errorf("it was started again: %+v", d.Latest)
	}
	delete(w.known, "docker:web")
	w.unknown = errors.New("the runtime does not answer")
	c.follow()
	if _, ok = c.Detail("docker:web"); !ok {
		t.Error("what nobody tells of is gone")
	}
	w.unknown = nil
	c.follow()
	if _, ok = c.Detail("docker:web"); ok {
		t.Error("what is gone is kept")
	}
}

// TestWhoseNetwork: a namespace is counted once, and that of the host is no container's.
func TestWhoseNetwork(t *testing.T) {
	w, c := newFakes()
	for id, pid := range map[string]uint32{"own": 10, "hosts": 11, "joined": 12} {
		w.run(id, pid)
		w.netdev[int(pid)] = []cgroup.Interface{{Name: "eth0", ReceiveBytes: 1000}}
	}
	w.known["docker:hosts"].Netns = w.netns()
	w.known["docker:joined"].NetworkOwner = "docker:own"
	w.run("host", 13)
	c.follow()
	for _, l := range c.Latest() {
		has := l.Last != nil && len(l.Last.Interfaces) == 1
		if has != (l.Key == "docker:own") {
			t.Errorf("%s: %+v", l.Key, l.Last)
		}
		if (l.Unread != "") != (l.Key == "docker:host") {
			t.Errorf("%s: %q", l.Key, l.Unread)
		}
	}
	w.clock = w.clock.Add(2 * time.Second)
	w.netdev[10] = []cgroup.Interface{{Name: "eth0", ReceiveBytes: 5000}, {Name: "new", ReceiveBytes: 1e9}}
	if d, _ := c.Detail("docker:own"); d.Rates == nil || d.Rates.Receive != 2000 {
		t.Errorf("4000 bytes in 2 s, and an interface that is new: %+v", d.Rates)
	}
}

// TestBounds: what is kept does not grow for ever.
func TestBounds(t *testing.T) {
	w, c := newFakes()
	w.run("web", 10)
	c.follow()
	for range 2 * minutesKept {
		w.used["/web"] += 30 * time.Second
		w.pass(c, time.Minute)
	}
	s := c.all["docker:web"]
	if len(s.recent) != samplesKept || len(s.minutes) != minutesKept {
		t.Errorf("%d samples and %d minutes are kept", len(s.recent), len(s.minutes))
	}
	for i := range 3 * endedKept {
		id := fmt.Sprint("c", i)
		w.run(id, uint32(100+i))
		c.follow()
		w.clock = w.clock.Add(time.Second)
		w.known["docker:"+id] = &models.Container{Runtime: "docker", ContainerId: id}
	}
	c.follow()
	if n := len(c.all); n != endedKept+1 {
		t.Errorf("%d series are kept", n)
	}
	if _, ok := c.Detail("docker:c149"); !ok {
		t.Error("the last one to end is forgotten")
	}
}

// TestOthers: the machine and its cgroups are told beside the containers, down to a depth,
// those within a container with it, and none of them twice.
func TestOthers(t *testing.T) {
	w, c := newFakes()
	w.run("docker/web", 10)
	w.cgroups = []string{"/docker", "/docker/web", "/docker/web/init", "/docker/web/init/a/b/c", "/system.slice", "/system.slice/ssh", "/system.slice/ssh/deep"}
	for _, path := range append(w.cgroups, "/") {
		w.used[path] = 0
	}
	c.cgroups["/docker/web"], c.cgroups["/docker/web/init"] = &series{}, &series{} // found before the container was known
	c.follow()
	if len(c.cgroups) != 0 {
		t.Errorf("the container is told of as one of the machine: %v", c.cgroups)
	}
	paths := func(all []Latest) (out []string) {
		for _, l := range all {
			if l.Last == nil || l.Container != nil || l.Key != l.Cgroup || !l.Start.IsZero() {
				t.Errorf("%+v", l)
			}
			out = append(out, l.Key)
		}
		return out
	}
	all, leftOut := c.Machine()
	if got := paths(all); !slices.Equal(got, []string{"/", "/docker", "/system.slice", "/system.slice/ssh"}) || leftOut != 1 {
		t.Errorf("the machine has %q, and %d more", got, leftOut)
	}
	if i := all[0].Last.Interfaces; len(i) != 1 || i[0].Name != "uplink" || all[1].Last.Interfaces != nil {
		t.Errorf("interfaces of the machine %+v, and of a cgroup %+v", i, all[1].Last.Interfaces)
	}
	d, _ := c.Detail("docker:docker/web")
	if got := paths(d.Within); !slices.Equal(got, []string{"/docker/web/init"}) || d.LeftOut != 1 {
		t.Errorf("within the container are %q, and %d more", got, d.LeftOut)
	}
	if n := len(c.All()); n != 6 {
		t.Errorf("all are %d", n)
	}
	w.pass(c, 10*time.Minute)
	if d, ok := c.Detail("/system.slice/ssh"); !ok || d.Samples < 20 || d.Samples > 25 {
		t.Errorf("one that is idle was sampled %d times in 10 minutes: %v", d.Samples, ok)
	}

	delete(w.used, "/system.slice/ssh") // it ends, and another comes
	w.cgroups, w.used["/system.slice/new"] = append(w.cgroups[:5], "/system.slice/new"), 0
	w.pass(c, 2*time.Minute)
	if _, ok := c.Detail("/system.slice/ssh"); ok {
		t.Error("what is gone is kept")
	}
	if d, ok := c.Detail("/system.slice/new"); !ok || d.Samples < 2 {
		t.Errorf("nobody asked for the new one, and it was sampled %d times", d.Samples)
	}
	w.known["docker:docker/web"] = &models.Container{Runtime: "docker", ContainerId: "docker/web"}
	c.follow()
	delete(w.used, "/docker/web/init")
	if d, _ = c.Detail("docker:docker/web"); len(d.Within) != 0 || d.LeftOut != 0 {
		t.Errorf("within one that has ended: %+v, and %d more", d.Within, d.LeftOut)
	}
}

// TestOthersAreBounded: however many cgroups somebody makes, so many are sampled, and it is
// said that there are more.
func TestOthersAreBounded(t *testing.T) {
	w, c := newFakes()
	for i := range 3 * machineMost {
		path := fmt.Sprint("/s", i)
		w.cgroups, w.used[path] = append(w.cgroups, path), 0
	}
	for i := range 20 {
		id := fmt.Sprint("c", i)
		w.run(id, uint32(10+i))
		for j := range 2 * withinMost {
			path := fmt.Sprint("/", id, "/", j)
			w.cgroups, w.used[path] = append(w.cgroups, path), 0
		}
	}
	w.used["/"] = 0
	c.follow()
	all, leftOut := c.Machine()
	if len(all) != machineMost+1 || leftOut < 2*machineMost {
		t.Errorf("%d of the machine, and %d more", len(all), leftOut)
	}
	within := 0
	for key := range w.known {
		d, _ := c.Detail(key)
		if within += len(d.Within); len(d.Within)+d.LeftOut != 2*withinMost {
			t.Errorf("%s: %d, and %d more", key, len(d.Within), d.LeftOut)
		}
	}
	if within+len(all) != cgroupsMost {
		t.Errorf("%d in all", within+len(all))
	}
}

// TestFilesystems: a layer that is written to is walked each minute, one that is not more
// and more seldom, one that takes long a hundredth of the time; what cannot be walked has no
// figure, and the machine has all of its file systems.
func TestFilesystems(t *testing.T) {
	w, c := newFakes()
	w.cgroups, w.used["/"] = []string{"/docker"}, 0
	for id, pid := range map[string]uint32{"busy": 10, "quiet": 11, "none": 12} {
		w.run(id, pid)
	}
	w.written[10], w.written[11] = 100, 5
	c.follow()
	c.Machine()
	pass := func(d time.Duration) {
		for end := w.clock.Add(d); ; {
			s, of, wait := c.nextFull()
			if s == nil {
				if w.clock = w.clock.Add(wait); w.clock.After(end) {
					w.clock = end
					return
				}
				continue
			}
			began := w.clock
			all, err := c.look(t.Context(), of)
			c.measured(s, all, err, w.clock.Sub(began))
			w.written[10]++
		}
	}
	pass(time.Hour)
	for pid, want := range map[int][2]int{10: {58, 61}, 11: {8, 10}, 12: {6, 7}} {
		if n := w.walks[pid]; n < want[0] || n > want[1] {
			t.Errorf("the layer of %d was walked %d times in an hour, want %v", pid, n, want)
		}
	}
	for key, want := range map[string]int{"docker:busy": 1, "docker:quiet": 1, "docker:none": 0, "/": 1, "/docker": 0} {
		w.used["/docker"] = 0
		if d, _ := c.Detail(key); len(d.Filesystems) != want {
			t.Errorf("%s: %+v", key, d.Filesystems)
		}
	}
	if d, _ := c.Detail("docker:busy"); d.Filesystems[0].Used < 100 {
		t.Errorf("it takes %+v", d.Filesystems)
	}

	w.walkTakes, w.walks = 5*time.Second, map[int]int{}
	pass(2 * time.Hour)
	if n := w.walks[10]; n < 12 || n > 15 {
		t.Errorf("what takes 5 s was walked %d times in 2 hours", n)
	}
}

// TestSetBack: a counter that goes back, and a clock that does, make no rates of nonsense.
func TestSetBack(t *testing.T) {
	at := func(s int, used time.Duration) *Sample {
		return &Sample{Time: time.Unix(int64(s), 0), Stats: cgroup.Stats{CPU: &cgroup.CPU{Usage: used}}}
	}
	if r := between(at(0, 10), at(1, 5)); r == nil || r.CPU != 0 {
		t.Errorf("%+v", r)
	}
	if r := between(at(1, 10), at(1, 15)); r != nil {
		t.Errorf("%+v", r)
	}
}
