package scheduler_test

import (
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

func TestCheckPolicies(t *testing.T) {
	for name, c := range map[string]struct {
		policies []scheduler.Policy
		ok       bool
	}{
		"none":         {nil, true},
		"nested":       {[]scheduler.Policy{{Keys: "a/", Audit: time.Hour}, {Keys: "a/1", Drift: scheduler.DriftAlert}}, true},
		"twice":        {[]scheduler.Policy{{Keys: "a/1", Audit: time.Hour}, {Keys: "b"}, {Keys: "a/1", Drift: scheduler.DriftAlert}}, false},
		"all twice":    {[]scheduler.Policy{{Audit: time.Hour}, {Drift: scheduler.DriftAlert}}, false},
		"negative":     {[]scheduler.Policy{{Audit: -1}}, false},
		"no such word": {[]scheduler.Policy{{Drift: 9}}, false},
	} {
		if err := scheduler.CheckPolicies(c.policies); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
