package schedulertest

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// ParseOption reads a line of a setup: "policy a/ drift=alert hold-down=5s
// audit=1m" or "grace 1m".
func ParseOption(o *scheduler.Options, f []string) (err error) {
	if len(f) < 2 {
		return fmt.Errorf("%s what?", f[0])
	}
	if f[0] == "grace" {
		o.Grace, err = time.ParseDuration(f[1])
		return err
	}
	p := scheduler.Policy{Keys: scheduler.Key(f[1])}
	if f[1] == "all" {
		p.Keys = ""
	}
	for _, w := range f[2:] {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "drift":
			p.Drift = map[string]scheduler.DriftPolicy{"repair": scheduler.DriftRepair,
				"alert": scheduler.DriftAlert, "ignore": scheduler.DriftIgnore}[value]
		case "hold-down":
			p.HoldDown, err = time.ParseDuration(value)
		case "deletions":
			p.Deletions, err = scheduler.ParseDeletions(value)
		case "disruptions":
			p.Disruptions, err = scheduler.ParseDisruptions(value)
		case "audit":
			p.Audit, err = time.ParseDuration(value)
		default:
			err = fmt.Errorf("%q says nothing about a policy", w)
		}
		if err != nil {
			return err
		}
	}
	o.Policies = append(o.Policies, p)
	return nil
}

// ParseRetries reads "3:1s:10s": attempts, the first delay, the longest.
func ParseRetries(text string) (*scheduler.Retries, error) {
	parts := strings.Split(text, ":")
	r := &scheduler.Retries{}
	var err error
	if r.Attempts, err = strconv.Atoi(parts[0]); err != nil {
		return nil, err
	}
	for i, to := range []*time.Duration{&r.Min, &r.Max} {
		if len(parts) > i+1 {
			if *to, err = time.ParseDuration(parts[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}
