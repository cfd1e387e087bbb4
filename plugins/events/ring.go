package events

// item is an event with its number beside it, which is what searches look at.
type item struct {
	seq uint64
	*Event
}

// ring is the events of one type, oldest first, with the highest number that
// was dropped.
type ring struct {
	of      Type
	all     []item
	dropped uint64
	told    uint64 // in this run of the agent, without what amends
}

// pop drops the oldest. The slice walks through its array, which append
// renews, with as much room as there is in use, when the end is reached.
func (r *ring) pop() *Event {
	e := r.all[0].Event
	r.all[0] = item{}
	r.all = r.all[1:]
	r.dropped = e.Seq
	return e
}

// above is the place of the first event with a number higher than seq.
func (r *ring) above(seq uint64) int {
	low, high := 0, len(r.all)
	for low < high {
		mid := (low + high) / 2
		if r.all[mid].seq <= seq {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// stretch is how many events are looked at under one lock, so that whoever
// adds one does not wait for long.
const stretch = 256

// rise returns up to a stretch of the events above a number, oldest first, and
// the number up to which that is all.
func (l *Log) rise(q *Query, seq uint64) (run []*Event, upTo uint64) {
	runs := l.runs(q, func(r *ring) []item { return r.all[r.above(seq):] })
	for len(run) < stretch {
		from := -1
		for i, rest := range runs {
			if len(rest) > 0 && (from < 0 || rest[0].seq < runs[from][0].seq) {
				from = i
			}
		}
		if from < 0 {
			return run, l.next - 1
		}
		run = append(run, runs[from][0].Event)
		runs[from] = runs[from][1:]
	}
	return run, run[stretch-1].Seq
}

// fall returns up to a stretch of the events above one number and below
// another, newest first; none if there are no more.
func (l *Log) fall(q *Query, above, below uint64) (run []*Event) {
	runs := l.runs(q, func(r *ring) []item { return r.all[r.above(above):r.above(below-1)] })
	for len(run) < stretch {
		from := -1
		for i, rest := range runs {
			if n := len(rest); n > 0 && (from < 0 || rest[n-1].seq > runs[from][len(runs[from])-1].seq) {
				from = i
			}
		}
		if from < 0 {
			break
		}
		last := len(runs[from]) - 1
		run = append(run, runs[from][last].Event)
		runs[from] = runs[from][:last]
	}
	return run
}

// runs cuts a piece out of each ring that is meant.
func (l *Log) runs(q *Query, cut func(*ring) []item) (runs [][]item) {
	for _, r := range l.rings {
		if q.wants(r.of) {
			if rest := cut(r); len(rest) > 0 {
				runs = append(runs, rest)
			}
		}
	}
	return runs
}
