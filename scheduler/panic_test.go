package scheduler_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/plumb-net/plumb/scheduler"
)

// text is a kind whose values are texts. Everything about the value "bad"
// panics in the function that the test names.
type text = scheduler.Descriptor[string, int]

func plain(name string) text {
	return text{
		Name: name, Prefix: scheduler.Key(name + "/"),
		Create: func(context.Context, scheduler.Key, string) (int, error) { return 1, nil },
		Update: func(context.Context, scheduler.Key, string, string, int) (int, error) { return 1, nil },
		Delete: func(context.Context, scheduler.Key, string, int) error { return nil },
	}
}

// No function of a descriptor, and none of a need, can take the scheduler with
// it: its panic becomes the error of its key, and others go on.
func TestPanicsStayWithTheirKey(t *testing.T) {
	onBad := func(v string) {
		if v == "bad" {
			panic("told to")
		}
	}
	needing := func(sharpen func(n scheduler.Need, v string) scheduler.Need) func(*text) {
		return func(d *text) {
			d.Needs = func(_ scheduler.Key, v string) []scheduler.Need {
				return []scheduler.Need{sharpen(scheduler.On("base/1", "to stand on"), v)}
			}
		}
	}
	for _, c := range []struct {
		name  string
		put   func(*text)
		state scheduler.State
		says  string // in the reason, or in what is missing
	}{
		{"Needs", func(d *text) {
			d.Needs = func(_ scheduler.Key, v string) []scheduler.Need { onBad(v); return nil }
		}, scheduler.InvalidState, "panicked: told to"},
		{"Claims", func(d *text) {
			d.Claims = func(_ scheduler.Key, v string) []scheduler.Claim { onBad(v); return nil }
		}, scheduler.InvalidState, "panicked: told to"},
		{"Derive", func(d *text) {
			d.Derive = func(_ scheduler.Key, v string) []scheduler.Change { onBad(v); return nil }
		}, scheduler.InvalidState, "panicked: told to"},
		{"Validate", func(d *text) {
			d.Validate = func(_ scheduler.Key, v string) error { onBad(v); return nil }
		}, scheduler.InvalidState, "panicked: told to"},
		{"Compare", func(d *text) {
			d.Compare = func(_ scheduler.Key, from, to string) scheduler.Verdict { onBad(to); return scheduler.Verdict{} }
		}, scheduler.InvalidState, "panicked: told to"},
		{"Equal", func(d *text) {
			d.Equal = func(_ scheduler.Key, _, v string) bool { onBad(v); return true }
		}, scheduler.InvalidState, "panicked: told to"},
		{"Lane", func(d *text) {
			d.Lane = func(_ scheduler.Key, v string) string { onBad(v); return "" }
		}, scheduler.Configured, ""},
		{"Disruption", func(d *text) {
			d.Disruption = func(_ scheduler.Key, _, v string) scheduler.Disruption { onBad(v); return 0 }
		}, scheduler.Configured, ""},
		{"Create", func(d *text) {
			d.Create = func(_ context.Context, _ scheduler.Key, v string) (int, error) { onBad(v); return 0, nil }
			d.Update = nil
		}, scheduler.Retrying, "panicked: told to"},
		{"Error of Create", func(d *text) {
			d.Create = func(_ context.Context, _ scheduler.Key, v string) (int, error) {
				if v == "bad" {
					return 0, rude{}
				}
				return 0, nil
			}
			d.Update = nil
		}, scheduler.Retrying, "a scheduler_test.rude that panics over what it says"},
		{"Error of Validate", func(d *text) {
			d.Validate = func(_ scheduler.Key, v string) error {
				if v == "bad" {
					return rude{}
				}
				return nil
			}
		}, scheduler.InvalidState, "a scheduler_test.rude that panics over what it says"},
		{"CreateBatch", func(d *text) {
			d.CreateBatch = func(_ context.Context, ops []*scheduler.Op[string, int]) { onBad(ops[0].Value) }
			d.Update = nil
		}, scheduler.Retrying, "panicked: told to"},
		{"Update", func(d *text) {
			d.Update = func(_ context.Context, _ scheduler.Key, _, v string, _ int) (int, error) { onBad(v); return 0, nil }
		}, scheduler.Retrying, "panicked: told to"},
		{"Delete", func(d *text) {
			d.Update = nil
			d.Delete = func(context.Context, scheduler.Key, string, int) error { panic("told to") }
		}, scheduler.Retrying, "panicked: told to"},
		{"Retrieve", func(d *text) {
			d.Retrieve = func(context.Context, scheduler.Scope[string, int]) iter.Seq2[scheduler.Found[string, int], error] {
				return func(func(scheduler.Found[string, int], error) bool) { panic("told to") }
			}
		}, scheduler.Unknown, "panicked: told to"},
		{"Watch", func(d *text) {
			d.Watch = func(context.Context, func(...scheduler.Key)) error { panic("told to") }
		}, scheduler.Configured, ""},
		{"Encode", func(d *text) {
			d.Encode = func(v string) ([]byte, error) { onBad(v); return []byte(v), nil }
			d.Decode = func(b []byte) (string, error) { onBad(string(b)); return string(b), nil }
		}, scheduler.Configured, ""},
		{"If", needing(func(n scheduler.Need, v string) scheduler.Need {
			return scheduler.If(n, func(scheduler.Key, string, int) bool { onBad(v); return true })
		}), scheduler.Pending, "panicked: told to"},
		{"Tell", needing(func(n scheduler.Need, v string) scheduler.Need {
			n = scheduler.If(n, func(scheduler.Key, string, int) bool { return v != "bad" })
			return scheduler.Tell(n, func(string, int) string { onBad(v); return "" })
		}), scheduler.Pending, "panicked: told to"},
		{"Project", needing(func(n scheduler.Need, v string) scheduler.Need {
			return scheduler.Project(n, func(string, int) string { onBad(v); return "" })
		}), scheduler.Configured, ""},
		{"Together", needing(func(n scheduler.Need, v string) scheduler.Need {
			return scheduler.Together(n.Key, n.Why, func(string) error { onBad(v); return nil })
		}), scheduler.InvalidState, "panicked: told to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := run(t, scheduler.Options{})
				d := plain("x")
				c.put(&d)
				for _, d := range []text{plain("base"), d} {
					_, err := scheduler.Register(r.Scheduler, d)
					r.check(err)
				}
				set := func(k scheduler.Key, v string) {
					_, err := r.Apply(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set(k, v)}})
					r.check(err)
				}
				set("base/1", "good")
				set("x/1", "good")
				_, err := r.Preview(ctx, scheduler.Txn{Want: []scheduler.Change{scheduler.Set("x/1", "bad")}})
				r.check(err)
				set("x/1", "bad")
				s, err := r.Get(ctx, "x/1")
				r.check(err)
				told := s.Reason
				for _, m := range s.Missing {
					told += " " + m.Why
				}
				if s.State != c.state || !strings.Contains(told, c.says) {
					t.Errorf("x/1 is %s: %s", s.State, told)
				}
				if strings.Contains(told, "\n") {
					t.Errorf("the reason is not one line: %q", told)
				}
				set("base/1", "moved") // judges all needs anew
				set("base/2", "good")
				if s, err := r.Get(ctx, "base/2"); err != nil || s.State != scheduler.Configured {
					t.Errorf("another key: %v %v", s.State, err)
				}
				if c.name == "Retrieve" || c.name == "Delete" {
					return // it cannot be mended by another value
				}
				set("x/1", "fine")
				if s, err := r.Get(ctx, "x/1"); err != nil || s.State != scheduler.Configured {
					t.Errorf("mended: %s %s %v", s.State, s.Reason, err)
				}
			})
		})
	}
}

// Interest is asked in the midst of an edit.
func TestInterestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := run(t, scheduler.Options{})
		_, err := scheduler.Register(r.Scheduler, text{Name: "seen", Prefix: "seen/",
			Retrieve: func(context.Context, scheduler.Scope[string, int]) iter.Seq2[scheduler.Found[string, int], error] {
				return func(yield func(scheduler.Found[string, int], error) bool) {
					yield(scheduler.Found[string, int]{}, errors.New("not now"))
				}
			},
			Interest: func(scheduler.Key, bool) { panic("told to") }})
		r.check(err)
		if s := r.want("a/1 v1 needs=seen/1").Keys[0]; s.State != scheduler.Pending {
			t.Errorf("a/1 is %s: %s", s.State, s.Reason)
		}
		if s := r.want("a/2 v1").Keys[0]; s.State != scheduler.Configured {
			t.Errorf("a/2 is %s: %s", s.State, s.Reason)
		}
	})
}
