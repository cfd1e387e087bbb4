package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/scheduler/schedulertest"
)

// Dice decide what a history is: a *[rand.Rand] does.
type Dice interface{ IntN(n int) int }

// Profile says what may happen in a history.
type Profile struct {
	Steps int
	// Calm leaves out all that goes wrong: faults, changes behind the
	// scheduler's back that are not reported, ends of the process.
	Calm bool
}

// History is the random history of a seed.
func History(seed uint64, p Profile) []Step {
	return Generate(rand.New(rand.NewPCG(seed, 0)), p)
}

const (
	things   = 6 // keys of each kind that is managed
	observed = 3
)

// Generate throws a history. What it leaves out, since no model of this size
// could foretell the outcome: sources that want what another value derives (who
// comes first has it), kinds without Retrieve (what a failure or another process
// left there is never known), and pairs of which one end has needs, and is there
// made by somebody else (whether it can be ours depends on what depends on it).
func Generate(d Dice, p Profile) []Step {
	g := &generator{Dice: d, calm: p.Calm, wants: map[string]map[string]string{"strong": {}, "weak": {}}, unregistered: map[string]string{}}
	g.ends, g.choosy = g.chance(2), g.chance(3)
	g.setup()
	for range p.Steps {
		g.step()
	}
	return g.steps
}

type generator struct {
	Dice
	calm         bool
	steps        []Step
	kinds        []string                     // lines of the setup
	wants        map[string]map[string]string // per source: key, thing
	unregistered map[string]string            // kind, its line
	paused       []string
	bounded      bool      // nothing upsets the order of turns; see keepsBound
	limited      bool      // not all may go at once
	ends         bool      // the two ends of a thing have needs, and nothing is of others
	choosy       bool      // many need any of a kind with a certain text, some twice
	needs        [2]string // of b/0 and b/1, as choose wrote them last
}

func (g *generator) one(of ...string) string { return of[g.IntN(len(of))] }

// chance is true once in n times.
func (g *generator) chance(n int) bool { return g.IntN(n) == 0 }

func (g *generator) add(do string, args []string, lines ...string) {
	if !g.calm && !g.chance(3) {
		args = append(args, "nowait")
	}
	g.steps = append(g.steps, Step{Do: do, Args: args, Lines: lines})
}

func (g *generator) setup() {
	g.kinds = []string{"a derives=d", "b noupdate batch", "c echo", "d derives=e derivedby=a", "e derivedby=d", "o observed"}
	if g.chance(2) {
		g.kinds[2] = "c echo lane batch"
	}
	lines := append([]string{"sources strong weak", "workers " + strconv.Itoa(1+g.IntN(4))}, g.kinds...)
	if g.chance(4) {
		lines = append(lines, "watched")
	}
	if g.chance(4) {
		g.bounded = g.calm
		lines = append(lines, fmt.Sprintf("policy all disruptions=%d/min", 2+g.IntN(3)))
	} else if g.chance(4) {
		g.limited = true
		lines = append(lines, fmt.Sprintf("policy all deletions=%d", 1+g.IntN(2)))
	}
	g.steps = append(g.steps, Step{Do: "setup", Lines: lines})
}

func (g *generator) kind() string { return g.one("a", "b", "c") }

func (g *generator) key() string { return g.kind() + "/" + strconv.Itoa(g.IntN(things)) }

func (g *generator) observed() string { return "o/" + strconv.Itoa(g.IntN(observed)) }

func (g *generator) anyKey() string {
	if g.chance(3) {
		return g.observed()
	}
	return g.key()
}

func (g *generator) text() string { return "v" + strconv.Itoa(g.IntN(4)) }

// step does one random thing.
func (g *generator) step() {
	if g.choosy && !g.bounded && g.chance(2) {
		g.choose()
		return
	}
	n := g.IntN(100)
	switch {
	case n < 44, g.bounded && n >= 70:
		g.write()
	case n < 55:
		g.add(g.one("put", "take"), nil, g.moved(g.observed()))
	case n < 58:
		g.add("txn", nil, g.look())
	case n < 68:
		g.add("wait", []string{strconv.Itoa(g.IntN(3000)) + "ms"})
	case n < 70:
		g.add("plan", []string{g.one("strong", "weak")}, g.change(g.key()))
	case n < 74:
		g.hold()
	case n < 77:
		g.kindsComeAndGo()
	case n < 78:
		g.add("retry", []string{g.key()})
	case !g.calm:
		g.chaos(n - 78)
	default:
		g.write()
	}
}

// choose is a step about few things: some need any of the others with a certain text, and these
// change, also while something is done to them, or behind the scheduler's back.
func (g *generator) choose() {
	provider := func() string { return "c/" + strconv.Itoa(g.IntN(3)) }
	text := func() string { return "v" + strconv.Itoa(g.IntN(3)) }
	var line string
	switch n := g.IntN(20); {
	case n < 7:
		line = provider() + " " + text()
		if g.chance(4) {
			line += " fixed"
		}
	case n < 10:
		line = provider() + " -"
	case n < 14:
		i := g.IntN(len(g.needs))
		if g.needs[i] == "" || g.chance(3) {
			g.needs[i] = "c/=" + text()
			if g.chance(2) {
				g.needs[i] += "," + g.one("c/", "c/="+text())
			}
		}
		line = "b/" + strconv.Itoa(i) + " " + text() + " needs=" + g.needs[i]
	case n < 15 || g.calm:
		g.add("wait", []string{strconv.Itoa(g.IntN(5000)) + "ms"})
		return
	case n < 18:
		g.add("fault", []string{"nowait"}, g.one("update c/", "update c/", "delete b/", "create c/")+": slow")
		return
	default:
		g.add("change", nil, provider()+" "+text())
		return
	}
	source := g.one("strong", "strong", "weak")
	key, thing, _ := strings.Cut(line, " ")
	if g.wants[source][key] = thing; thing == "-" {
		delete(g.wants[source], key)
	}
	g.add("txn", []string{source}, line)
}

// chaos is what does not happen on a calm day; n below 22.
func (g *generator) chaos(n int) {
	switch {
	case n < 10:
		g.fault()
	case n < 12:
		g.add("release", nil)
	case n < 15:
		g.add(g.one("change", "change", "take"), nil, g.moved(g.managed()))
	case n < 16:
		g.drift()
	case n < 17 && !g.ends:
		g.add(g.one("foreign", "take"), nil, g.moved(g.key()))
	case n < 18:
		g.restart()
	case n < 20:
		g.add("wait", []string{g.one("31s", "2m", "10s")})
	default:
		g.write()
	}
}

func (g *generator) managed() string {
	if g.chance(6) {
		return fmt.Sprintf("d/%d/p%d", g.IntN(things), g.IntN(3))
	}
	return g.key()
}

// moved says how an observed thing moves: to a text, told or not.
func (g *generator) moved(k string) string {
	k += " " + g.text()
	if !g.calm && g.chance(3) {
		k += " untold"
	}
	return k
}

// drift is somebody who fights with us, until nobody wants what it is about.
func (g *generator) drift() {
	k := g.key()
	for range 1 + g.IntN(5) {
		g.steps = append(g.steps, Step{Do: "change", Lines: []string{k + " " + g.text()}})
	}
	if g.chance(2) {
		source := g.one("strong", "weak")
		delete(g.wants[source], k)
		g.add("txn", []string{source}, k+" -")
	}
}

func (g *generator) restart() {
	if g.chance(3) {
		g.add("restart", []string{"silent"})
		g.add("speak", nil)
	} else {
		g.add("restart", nil)
	}
	g.paused = nil
	clear(g.unregistered)
}

func (g *generator) look() string {
	switch g.IntN(3) {
	case 0:
		return "look all"
	case 1:
		return "look " + g.one("a", "b", "c", "d", "e", "o") + "/"
	}
	return "look " + g.anyKey()
}

func (g *generator) hold() {
	switch {
	case g.limited && g.chance(3):
		g.add("letgo", nil)
	case g.chance(2) && len(g.paused) > 0:
		i := g.IntN(len(g.paused))
		g.add("resume", []string{g.paused[i]})
		g.paused = slices.Delete(g.paused, i, i+1)
	default:
		k := g.key()
		if g.chance(4) {
			k = g.kind() + "/"
		}
		args := []string{k, "held"}
		if g.chance(2) {
			args = append(args, g.one("1s", "30s"))
		} else {
			g.paused = append(g.paused, k)
		}
		g.add("pause", args)
	}
}

func (g *generator) kindsComeAndGo() {
	for _, line := range g.kinds {
		name, _, _ := strings.Cut(line, " ")
		if g.unregistered[name] != "" && g.chance(2) {
			delete(g.unregistered, name)
			g.add("register", nil, line)
			return
		}
	}
	if line := g.kinds[g.IntN(len(g.kinds))]; g.chance(2) {
		name, _, _ := strings.Cut(line, " ")
		if g.unregistered[name] == "" {
			g.unregistered[name] = line
			g.add("unregister", []string{name})
		}
	}
}

// fault orders one to three faults.
func (g *generator) fault() {
	var lines []string
	for range 1 + g.IntN(3) {
		op := g.one("create", "create", "update", "delete", "delete", "look", "events", "operation")
		target := g.kind() + "/"
		switch {
		case op == "events":
			target = g.one("o/", "o/", "a/", "c/")
		case op == "look":
			target = g.one("a/", "b/", "c/", "d/", "o/", g.anyKey())
		case op == "operation":
			target = strconv.Itoa(1 + g.IntN(5))
		case g.chance(2):
			target = g.managed()
		}
		faults := schedulertest.FaultsOf(op)
		if op == "look" && !strings.HasSuffix(target, "/") {
			faults = []schedulertest.Fault{schedulertest.Fail}
		}
		o := op + " " + target + ": " + faults[g.IntN(len(faults))].String()
		if op != "operation" {
			o += g.one(" once", " once", " twice", " 4 times")
		}
		lines = append(lines, o)
	}
	g.add("fault", nil, lines...)
}

// write is a transaction.
func (g *generator) write() {
	source := g.one("strong", "weak")
	args := []string{source}
	var lines []string
	keys := map[string]bool{}
	set := func(k string) {
		if keys[k] {
			return
		}
		keys[k] = true
		line := g.change(k)
		if peer := peerOf(g.wants[source][k]); g.ends && peer != "" && line != k+" -" && line != k+" ?" && !strings.Contains(line, " peer=") && g.chance(2) {
			line += " peer=" + peer
		}
		_, thing, _ := strings.Cut(line, " ")
		if g.wants[source][k] = thing; thing == "-" {
			delete(g.wants[source], k)
		}
		lines = append(lines, line)
	}
	if g.chance(4) {
		args = append(args, "previewed")
	}
	complete := g.chance(16)
	for range 1 + g.IntN(3) {
		k := g.key()
		if set(k); g.chance(10) {
			lines = g.pair(source, k, keys, lines)
		}
	}
	switch {
	case complete:
		args = append(args, "complete")
	case !g.bounded && g.chance(8):
		args = append(args, "owner")
		lines = g.rest(source, keys, lines)
	case g.chance(10): // whether it happens the player finds out
		args = append(args, "revert", "result")
	case g.chance(8):
		args = append(args, "result")
	case g.chance(6) && !g.bounded: // it goes as planned
		g.steps = append(g.steps, Step{Do: "txn", Args: append(args, "planned"), Lines: lines})
		return
	}
	g.add("txn", args, lines...)
}

// rest names what else the source wants, but for what it drops.
func (g *generator) rest(source string, named map[string]bool, lines []string) []string {
	var keys []string
	for k := range g.wants[source] {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		switch {
		case named[k]:
		case g.chance(4):
			delete(g.wants[source], k)
		default:
			lines = append(lines, k+" "+g.wants[source][k])
		}
	}
	return lines
}

// pair wants k and another as two ends of one thing.
func (g *generator) pair(source, k string, keys map[string]bool, lines []string) []string {
	p := g.key()
	if keys[p] {
		return lines
	}
	keys[p] = true
	last := len(lines) - 1
	lines[last] = k + " " + g.end(k, p)
	lines = append(lines, p+" "+g.end(p, k))
	for _, l := range lines[last:] {
		key, thing, _ := strings.Cut(l, " ")
		g.wants[source][key] = thing
	}
	return lines
}

// end is one of the two ends of a thing.
func (g *generator) end(k, peer string) string {
	t := schedulertest.Thing{Text: g.text()}
	if g.ends && g.chance(3) {
		t = g.value(k)
	}
	t.Peer = peer
	return t.String()
}

// peerOf is the peer of a thing in words, "" if it has none.
func peerOf(thing string) string {
	_, peer, _ := strings.Cut(thing, " peer=")
	peer, _, _ = strings.Cut(peer, " ")
	return peer
}

// change is what a source says of a key.
func (g *generator) change(k string) string {
	switch g.IntN(24) {
	case 0, 1, 2, 3, 4, 5:
		return k + " -"
	case 6:
		return k + " ?"
	}
	return k + " " + g.thing(k)
}

func (g *generator) thing(k string) string { return g.value(k).String() }

func (g *generator) value(k string) schedulertest.Thing {
	t := schedulertest.Thing{Text: g.text(), Fixed: g.chance(4), Alone: g.chance(6), Bad: g.chance(12)}
	for range g.IntN(3) {
		if n := g.need(k); n != "" && !slices.Contains(t.Needs, n) {
			t.Needs = append(t.Needs, n)
		}
	}
	slices.Sort(t.Needs)
	if g.chance(12) {
		if p := g.key(); p != k {
			if t.Peer = p; !g.ends {
				t.Needs = nil
			}
		}
	}
	if g.chance(5) {
		t.Claims = []string{g.one("name0", "name1", "name2")}
	}
	if strings.HasPrefix(k, "a/") {
		for i := range g.IntN(3) {
			t.Derives = append(t.Derives, g.derivation(i))
		}
	}
	return t
}

func (g *generator) derivation(i int) string {
	d := "p" + strconv.Itoa(i)
	if g.chance(2) {
		d += ":" + g.text()
	}
	if g.chance(3) {
		d += "<" + g.observed()
	}
	if g.chance(4) {
		d += ">q"
		if g.chance(2) {
			d += ":" + g.text()
		}
	}
	return d
}

func (g *generator) need(k string) string {
	if g.choosy && !g.bounded && g.chance(2) {
		n := g.one("b", "c") + "/"
		if g.chance(4) {
			return n
		}
		return n + "=" + g.text()
	}
	n := g.anyKey()
	if n == k {
		return ""
	}
	if g.chance(12) && n[0] == 'a' {
		n = "d/" + n[2:] + "/p0" // what another one derives
	}
	switch g.IntN(8) {
	case 0, 1:
		if n = n[:2]; n[0] == 'd' && g.chance(2) {
			n = fmt.Sprintf("d/%d/+d/", g.IntN(things)) // what one derives, and what has a name of its own
			if g.chance(3) {
				n += "+c/"
			}
		}
		if g.chance(4) {
			n += "=" + g.text()
		}
	case 2:
		n += "=" + g.text()
	case 3:
		n += "@"
	case 4:
		n += "#"
	case 5:
		n = n[:2] + g.one("@", "#")
	}
	return n
}
