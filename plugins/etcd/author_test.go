package etcd

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
)

// by writes a route through the agent, as an author.
func (a *agent) by(who, key, text string) int64 {
	a.t.Helper()
	w := write("config/"+key, fmt.Sprintf("%q", text))
	rev, err := a.Write(a.t.Context(), []models.Write{w, models.Author{By: who, Message: "why"}.Write(who)})
	if err != nil {
		a.t.Fatal(err)
	}
	a.upTo(rev)
	return rev
}

// authors is who made the revisions, a dash for nobody.
func (a *agent) authors(revs ...int64) string {
	a.t.Helper()
	var out []string
	for _, rev := range revs {
		who, ok, err := a.Author(a.t.Context(), rev)
		switch {
		case err != nil:
			a.t.Fatal(err)
		case !ok:
			who.By = "-"
		}
		out = append(out, who.By)
	}
	return strings.Join(out, " ")
}

// TestAuthors: the transaction says who made it; what others wrote says that, and nothing
// but intent is told.
func TestAuthors(t *testing.T) {
	stores(t, func(t *testing.T, c Config, kv func() clientv3.KV) {
		a := runAgent(t, c)
		a.ready()
		amy := a.by("amy", "route/a", "1")
		hand := put(t, kv(), "route/b", "1")
		a.upTo(hand)
		stray, err := kv().Put(t.Context(), base+"author/stray", "no record") // and no transaction
		if err != nil {
			t.Fatal(err)
		}
		a.upTo(stray.Header.Revision)
		bob := a.by("bob", "route/a", "2")
		want := `put route/a by amy: "why": route/a=1
put route/b, not through the agent: route/b=1
put route/a by bob: "why": route/a=2
`
		if got := story(a.rec.since(1)); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if got := a.authors(amy, hand, bob, bob+5); got != "amy - bob -" {
			t.Error(got)
		}
		a.state(healthOK, "")
	})
}

// TestAuthorsArePruned: the records of values that are there stay, and the newest.
func TestAuthorsArePruned(t *testing.T) {
	c := config(t)
	c.tune.auditEvery, c.tune.keptAuthors = 20*time.Millisecond, 3
	a := runAgent(t, c)
	a.ready()
	stays := a.by("first", "route/stays", "1")
	var revs []int64
	for i := range 2 * prunedAuthors {
		revs = append(revs, a.by(fmt.Sprint("w", i), "route/a", fmt.Sprint(i)))
	}
	a.await("the records of old values", func() bool { return a.authors(revs[0]) == "-" })
	last := len(revs) - 1
	if got, want := a.authors(stays, revs[last-2], revs[last]), fmt.Sprintf("first w%d w%d", last-2, last); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
