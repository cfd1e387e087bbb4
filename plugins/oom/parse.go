package oom

import (
	"strconv"
	"strings"
	"time"
)

// victim is one process that the kernel says it killed.
type victim struct {
	pid  int
	name string
	// What follows is known when the kernel wrote its full report, which it
	// does ten times in five seconds at most.
	constraint string
	cgroup     string // of the victim
	limit      string // the cgroup whose limit was hit; "" if memory ran out at all
	reported   bool
	// group is the cgroup of which all processes are killed, "" if one is.
	group string
	age   time.Duration // when it was read
}

// parser puts the lines of a report together. What counts as a kill is the
// line "Killed process"; those before it say where. The kernel writes one
// report at a time.
type parser struct {
	// report is what the lines since the last kill have said.
	report victim
	// group is the cgroup of which all are killed, "" if one was.
	group string
	// partial is a line that comes in pieces.
	partial string
}

// lost forgets what was gathered: the lines in between are missing.
func (p *parser) lost() { *p = parser{} }

// take reads a message and returns the victim if it tells of one.
func (p *parser) take(m Message) (v victim, ok bool) {
	if !m.Kernel {
		return v, false
	}
	text := m.Text
	if p.partial != "" {
		if m.Continues || strings.HasPrefix(text, ",") {
			text = p.partial + text
		}
		p.partial = ""
	}
	switch {
	case strings.HasPrefix(text, "oom-kill:"):
		if !strings.Contains(text, ",uid=") && len(text) < 1<<12 {
			p.partial = text
			return v, false
		}
		p.report, p.group = parseReport(text), ""
	case strings.Contains(text, " invoked oom-killer: "):
		p.report, p.group = victim{}, ""
	case strings.HasPrefix(text, "Task in ") && strings.Contains(text, killedAsResult):
		p.report, p.group = parseOldReport(text), ""
	case strings.HasPrefix(text, "Tasks in ") && strings.HasSuffix(text, groupSet):
		p.group = strings.TrimSuffix(strings.TrimPrefix(text, "Tasks in "), groupSet)
	case strings.Contains(text, killed):
		v, ok = p.killed(text)
		v.age = m.Age
		return v, ok
	}
	return v, false
}

const (
	killed         = "Killed process "
	killedAsResult = " killed as a result of limit of "
	groupSet       = " are going to be killed due to memory.oom.group set"
)

// killed joins the line about a kill with the report before it.
func (p *parser) killed(text string) (v victim, ok bool) {
	pid, name, ok := parseKilled(text)
	if !ok {
		return v, false
	}
	if p.report.reported && (p.report.pid == pid || p.report.pid == 0 || p.group != "") {
		v = p.report
	}
	if p.group != "" {
		v.cgroup, v.reported, v.group = p.group, true, p.group
	} else {
		p.report = victim{}
	}
	v.pid, v.name = pid, name
	return v, true
}

// parseKilled reads the line about a kill, in all its forms:
//
//	Killed process 8377 (java) total-vm:4kB, anon-rss:0kB
//	Killed process 8377 (java), UID 0, total-vm:4kB
//	Memory cgroup out of memory: Killed process 8377 (java) total-vm:4kB, …
//
// The name may hold anything, brackets too.
func parseKilled(text string) (pid int, name string, ok bool) {
	prefix, rest, _ := strings.Cut(text, killed)
	if prefix != "" && !strings.HasSuffix(prefix, ": ") {
		return 0, "", false
	}
	number, rest, _ := strings.Cut(rest, " (")
	pid, err := strconv.Atoi(number)
	end := strings.LastIndex(rest, "total-vm:")
	if err != nil || pid <= 0 || end < 0 {
		return 0, "", false
	}
	end = strings.LastIndex(rest[:end], ")")
	if end < 0 {
		return 0, "", false
	}
	return pid, rest[:end], true
}

// parseReport reads the report of kernels since 5.0:
//
//	oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,task_memcg=/a/b,task=sh,pid=7,uid=0
//
// Paths and the name may hold commas, so it is taken apart from both ends.
func parseReport(text string) (v victim) {
	constraint, rest, ok := strings.Cut(strings.TrimPrefix(text, "oom-kill:constraint="), ",")
	if !ok {
		return victim{}
	}
	rest, _, ok = cutLast(rest, ",uid=")
	if !ok {
		return victim{}
	}
	rest, pid, ok := cutLast(rest, ",pid=")
	if !ok {
		return victim{}
	}
	n, err := strconv.Atoi(pid)
	if err != nil {
		return victim{}
	}
	v = victim{pid: n, constraint: constraint, reported: true}
	rest, v.name = cutName(rest)
	rest, v.cgroup, _ = strings.Cut(rest, ",task_memcg=")
	_, v.limit, _ = strings.Cut(rest, ",oom_memcg=")
	return v
}

// maxName is the longest name of a task.
const maxName = 15

// cutName cuts off the name, which may itself look like a field.
func cutName(text string) (rest, name string) {
	const field = ",task="
	from := max(0, len(text)-len(field)-maxName)
	if i := strings.Index(text[from:], field); i >= 0 {
		return text[:from+i], text[from+i+len(field):]
	}
	return text, ""
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// parseOldReport reads the report of kernels before 5.0, which does not name
// the victim:
//
//	Task in /a/b killed as a result of limit of /a
func parseOldReport(text string) victim {
	cgroup, limit, _ := strings.Cut(strings.TrimPrefix(text, "Task in "), killedAsResult)
	return victim{constraint: "CONSTRAINT_MEMCG", cgroup: cgroup, limit: limit, reported: true}
}
