package oom

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

// TestStories plays the stories of testdata/stories on a kernel in memory and
// prints what is told after each line.
//
//	do       does something, a line at a time:
//	           run                            the watcher begins
//	           follow ID pid=N cgroup=P told=N, forget ID, ended ID
//	           count P N                      a cgroup's counter
//	           gone P                         the cgroup is removed
//	           proc N P                       a process can be seen in a cgroup
//	           lost, skip N, dead             messages are, with and without a word; the log is
//	           wait D
//	log      the kernel writes lines; "user: " a process did, "more: " it goes on
//	stats    what was counted
func TestStories(t *testing.T) {
	datadriven.Walk(t, "testdata/stories", func(t *testing.T, path string) {
		synctest.Test(t, func(t *testing.T) {
			s := newStory(t, strings.Contains(path, "silent"))
			defer s.stop()
			datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
				switch d.Cmd {
				case "do":
					for _, line := range strings.Split(d.Input, "\n") {
						s.step(t, strings.Fields(line))
						synctest.Wait()
					}
				case "log":
					s.log.print(strings.Split(d.Input, "\n")...)
				case "stats":
					return fmt.Sprintf("%+v\n", s.w.Stats())
				default:
					d.Fatalf(t, "unknown directive %s", d.Cmd)
				}
				synctest.Wait()
				return s.take()
			})
		})
	})
}

type story struct {
	log    *fakeLog
	host   *fakeHost
	w      *Watcher
	begun  time.Time
	cancel context.CancelFunc
	done   chan error

	mu  sync.Mutex
	out strings.Builder
}

func newStory(t *testing.T, silent bool) *story {
	s := &story{log: newLog(), host: newHost(), begun: time.Now()}
	o := Options{Messages: s.log, Host: s.host, Tell: s.tell}
	if silent {
		o.Messages, o.Quiet = nil, errors.New("no permission")
	}
	var err error
	if s.w, err = New(o); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *story) stop() {
	if s.cancel != nil {
		s.cancel()
		<-s.done
	}
}

func (s *story) take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.out.String()
	s.out.Reset()
	return out
}

func (s *story) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(&s.out, "%v %s\n", time.Since(s.begun), text)
}

func (s *story) tell(k Kill) { s.say(show(k)) }

func show(k Kill) string {
	var b strings.Builder
	add := func(name string, value any, there bool) {
		if there {
			fmt.Fprintf(&b, " %s=%v", name, value)
		}
	}
	add("pid", k.Pid, k.Pid != 0)
	add("name", strings.Trim(strconv.Quote(k.Name), "\""), k.Name != "")
	add("of", k.Container, k.Container != "")
	add("first", k.First, k.First)
	add("all", k.All, k.All)
	add("cgroup", k.Cgroup, k.Cgroup != "")
	add("limit", k.Limit, k.Limit != "")
	add("limit-of", k.LimitContainer, k.LimitContainer != "")
	add("by", strings.TrimPrefix(k.Constraint, "CONSTRAINT_"), k.Constraint != "")
	add("count", k.Count, k.Count != 0)
	add("times", k.Times, k.Times != 1)
	add("amends", k.Amends, k.Amends)
	return "kill" + b.String()
}

// step does one line.
func (s *story) step(t *testing.T, words []string) {
	args := map[string]string{}
	var plain []string
	for _, w := range words[1:] {
		if k, v, ok := strings.Cut(w, "="); ok {
			args[k] = v
		} else {
			plain = append(plain, w)
		}
	}
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	switch words[0] {
	case "run":
		ctx, cancel := context.WithCancel(context.Background())
		s.cancel, s.done = cancel, make(chan error, 1)
		go func() { s.done <- s.w.Run(ctx) }()
	case "follow":
		s.w.Follow(Container{ID: plain[0], Pid: number(args["pid"]), Cgroups: cgroups(args["cgroup"]),
			Told: uint64(number(args["told"]))})
	case "forget":
		s.w.Forget(plain[0])
	case "ended":
		s.w.Ended(plain[0])
	case "count":
		s.set(func(h *fakeHost) { h.counts[plain[0]] = uint64(number(plain[1])) })
	case "gone":
		s.set(func(h *fakeHost) { delete(h.counts, plain[0]) })
	case "proc":
		s.set(func(h *fakeHost) { h.procs[number(plain[0])] = "4:memory:" + plain[1] + "\n" })
	case "lost":
		s.log.mu.Lock()
		s.log.lost = true
		s.log.mu.Unlock()
		s.log.poke()
	case "skip":
		s.log.mu.Lock()
		s.log.seq += uint64(number(plain[0]))
		s.log.mu.Unlock()
	case "dead":
		s.log.mu.Lock()
		s.log.dead = errors.New("it is broken")
		s.log.mu.Unlock()
		s.log.poke()
	case "wait":
		d, err := time.ParseDuration(plain[0])
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(d)
	default:
		t.Fatalf("unknown line %v", words)
	}
}

func (s *story) set(f func(*fakeHost)) {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	f(s.host)
}

func cgroups(path string) string {
	if path == "read" {
		return ""
	}
	return "4:memory:" + path + "\n0::/\n"
}
