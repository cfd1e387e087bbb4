package events

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/plumb-net/plumb/plugins/container"
)

// Limits bound what is kept. A field that is 0 has its default.
type Limits struct {
	// Age is how long an event is kept. Default 24 h.
	Age time.Duration
	// Count of all, and of each type, so that those that come often do not
	// push out the rare ones. Default 100,000 and 40,000.
	Count, PerType int
	// Bytes in memory, roughly. Default 32 MiB.
	Bytes int64
}

func (l Limits) withDefaults() Limits {
	l.Age = cmp.Or(l.Age, 24*time.Hour)
	l.Count = cmp.Or(l.Count, 100_000)
	l.PerType = cmp.Or(l.PerType, 40_000)
	l.Bytes = cmp.Or(l.Bytes, 32<<20)
	return l
}

// Log is the events. All methods may be called from any goroutine; none but
// Next of a watcher blocks.
type Log struct {
	limits Limits

	mu       sync.RWMutex // guards what follows
	rings    []*ring      // a few: one for each type
	next     uint64       // number of the next event
	count    int
	bytes    int64
	watchers map[*Watcher]bool
	// lost is up to which number events of earlier runs may be missing.
	lost uint64
}

// New makes a log that goes on from events of earlier runs, oldest first, with
// the number next, or the one after theirs.
func New(limits Limits, earlier []*Event, next uint64) *Log {
	l := &Log{limits: limits.withDefaults(), next: 1, watchers: map[*Watcher]bool{}}
	now := time.Now()
	age(earlier, now)
	for _, e := range earlier {
		if e.Seq < l.next {
			continue // the order of numbers is the order
		}
		if l.next == 1 {
			l.lost = e.Seq - 1
		}
		e.Earlier = true
		e.bound() // a former version did not
		e.size = sizeOf(e)
		l.put(e, now)
		l.next = e.Seq + 1
	}
	if next > l.next {
		l.lost, l.next = next-1, next
	}
	return l
}

// age says how old the events of earlier runs are. The wall clock may have been
// set since: nothing is of the future, or younger than what came after it.
func age(earlier []*Event, now time.Time) {
	kept := now
	for _, e := range slices.Backward(earlier) {
		if t := now.Add(-now.Sub(e.Seen)); t.Before(kept) {
			kept = t
		}
		e.kept = kept
	}
}

// Add takes in an event. It never waits for anybody who reads.
func (l *Log) Add(e container.Event) { l.add(&Event{Event: e}) }

// AddDetail takes in an event with more to say in words.
func (l *Log) AddDetail(e container.Event, detail string) {
	e.Detail = detail
	l.Add(e)
}

func (l *Log) add(e *Event) {
	now := time.Now()
	if e.Seen.IsZero() {
		e.Seen = now
	}
	if e.At.IsZero() {
		e.At = e.Seen
	}
	e.bound()
	e.kept, e.size = now, sizeOf(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq = l.next
	l.next++
	l.put(e, now)
	if !e.Amends {
		l.ring(e.Type).told++
	}
	for w := range l.watchers {
		if w.query.wants(e.Type) {
			w.rouse()
		}
	}
}

// put keeps an event and drops what is too much.
func (l *Log) put(e *Event, now time.Time) {
	r := l.ring(e.Type)
	r.all = append(r.all, item{e.Seq, e})
	l.count++
	l.bytes += e.size
	if len(r.all) > l.limits.PerType {
		l.drop(r)
	}
	for l.count > l.limits.Count || l.bytes > l.limits.Bytes {
		l.drop(l.oldest())
	}
	l.expire(now)
}

func (l *Log) ring(t Type) *ring {
	for _, r := range l.rings {
		if r.of == t {
			return r
		}
	}
	l.rings = append(l.rings, &ring{of: t})
	return l.rings[len(l.rings)-1]
}

func (l *Log) drop(r *ring) {
	l.count--
	l.bytes -= r.pop().size
}

// oldest is the ring with the oldest event of all.
func (l *Log) oldest() (of *ring) {
	for _, r := range l.rings {
		if len(r.all) > 0 && (of == nil || r.all[0].seq < of.all[0].seq) {
			of = r
		}
	}
	return of
}

// expire drops what is too old. What is older has a lower number.
func (l *Log) expire(now time.Time) {
	for l.count > 0 {
		r := l.oldest()
		if now.Sub(r.all[0].kept) <= l.limits.Age {
			return
		}
		l.drop(r)
	}
}

// Query returns the events that are meant, oldest first, and the number up to
// which it looked: who goes on watching after that misses none and sees none
// twice. The events must not be changed.
func (l *Log) Query(q Query) (found []*Event, upTo uint64) {
	l.mu.Lock()
	l.expire(time.Now())
	below := l.next
	l.aliases(&q)
	l.mu.Unlock()
	upTo = below - 1
	for q.Limit == 0 || len(found) < q.Limit {
		l.mu.RLock()
		run := l.fall(&q, q.After, below)
		l.mu.RUnlock()
		if len(run) == 0 {
			break
		}
		below = run[len(run)-1].Seq
		for _, e := range run {
			if q.matches(e) && (q.Limit == 0 || len(found) < q.Limit) {
				found = append(found, e)
			}
		}
	}
	slices.Reverse(found)
	return found, upTo
}

// aliases finds out which containers bore the name that is asked for.
func (l *Log) aliases(q *Query) {
	q.ids = nil
	for _, i := range l.ring(container.Renamed).all {
		q.renamed(i.Event)
	}
}

// Stats tell what is kept.
type Stats struct {
	Count    int
	Bytes    int64
	Next     uint64
	Watchers int
	// Told is how many of each type were told in this run of the agent; what
	// amends is not counted.
	Told map[Type]uint64
}

// Stats tell what is kept.
func (l *Log) Stats() Stats {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := Stats{Count: l.count, Bytes: l.bytes, Next: l.next, Watchers: len(l.watchers), Told: map[Type]uint64{}}
	for _, r := range l.rings {
		s.Told[r.of] = r.told
	}
	return s
}
