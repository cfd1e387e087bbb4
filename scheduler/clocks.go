package scheduler

import "time"

// setClocks begins what is due by the clock from the start on: audits, which
// read the worlds of keys from time to time, and the end of the grace.
func (l *loop) setClocks() {
	for _, p := range l.opts.Policies {
		if p.Audit > 0 {
			l.auditNext(p)
		}
	}
	if l.opts.Grace > 0 {
		l.Retries.AddFunc(l.Now.Add(l.opts.Grace), l.ExpireGrace)
	}
	l.Arm()
}

func (l *loop) auditNext(p Policy) {
	spread := time.Duration(float64(p.Audit) * 0.2 * (l.opts.Rand() - 0.5))
	l.Retries.AddFunc(l.Now.Add(p.Audit+spread), func() {
		t := &Txn{Source: "audit", Note: "audit " + string(p.Keys), Look: []Key{p.Keys}, hint: true}
		if p.Keys == "" {
			t.Look, t.LookAll = nil, true
		}
		l.inbox(input{txn: t, handle: newHandle(nil, *t)})
		l.auditNext(p)
	})
}
