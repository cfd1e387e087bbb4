package scheduler_test

import (
	"context"
	"iter"
	"reflect"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/scheduler"
)

// What a descriptor leaves out is a capability that the kind lacks; what it has,
// and the scheduler uses, is listed.
func TestCapabilities(t *testing.T) {
	type V = string
	type found = scheduler.Found[V, int]
	least := plain("least")
	least.Update = nil

	equal := plain("equal")
	equal.Update = nil
	equal.Equal = func(scheduler.Key, V, V) bool { return true }

	seen := text{
		Name: "seen", Prefix: "seen/",
		Retrieve: func(context.Context, scheduler.Scope[V, int]) iter.Seq2[found, error] {
			return func(func(found, error) bool) {}
		},
		Interest: func(scheduler.Key, bool) {},
	}

	all := plain("all")
	all.Needs = func(scheduler.Key, V) []scheduler.Need { return nil }
	all.Release = func(context.Context, scheduler.Key, V, V, int) error { return nil }
	all.GivesBack = func(scheduler.Key, V, int) bool { return false } // words a record, and is no capability
	all.Compare = func(scheduler.Key, V, V) scheduler.Verdict { return scheduler.Verdict{} }
	all.Equal = equal.Equal // is not asked beside Compare
	all.Validate = func(scheduler.Key, V) error { return nil }
	all.Derive = func(scheduler.Key, V) []scheduler.Change { return nil }
	all.DerivedBy = func(scheduler.Key) scheduler.Key { return "" }
	all.Claims = func(scheduler.Key, V) []scheduler.Claim { return nil }
	all.Retrieve = seen.Retrieve
	all.Watch = func(ctx context.Context, _ func(...scheduler.Key)) error { <-ctx.Done(); return nil }
	all.ChangedBy = func(scheduler.Key) string { return "" }
	all.CreateBatch = func(context.Context, []*scheduler.Op[V, int]) {}
	all.DeleteBatch = all.CreateBatch
	all.Lane = func(scheduler.Key, V) string { return "" }
	all.Secrets = func(v V) (V, []string) { return v, nil }
	all.ReadAfter = []string{"seen"}
	all.Timeout = 1
	all.Disruption = func(scheduler.Key, V, V) scheduler.Disruption { return scheduler.Brief }
	all.Encode = func(V) ([]byte, error) { return nil, nil }
	all.Decode = func([]byte) (V, error) { return "", nil }

	a, o := reflect.ValueOf(all), reflect.ValueOf(seen)
	for i := range a.NumField() {
		if a.Field(i).IsZero() && o.Field(i).IsZero() {
			t.Errorf("no kind here has %s", a.Type().Field(i).Name)
		}
	}

	s := scheduler.New(scheduler.Options{})
	for _, d := range []text{least, equal, seen, all} {
		if _, err := scheduler.Register(s, d); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]string{
		"least": "",
		"equal": "equal",
		"seen":  "interest,observed,retrieve",
		"all":   "claims,validate,derive,derived-by,secrets,lane,disruption,codec,compare,timeout,release,update,create-batch,delete-batch,watch,changed-by,retrieve,read-after",
	}
	for _, k := range s.Kinds() {
		if got := strings.Join(k.Capabilities, ","); got != want[k.Name] {
			t.Errorf("%s can %q, want %q", k.Name, got, want[k.Name])
		}
		delete(want, k.Name)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
}
