package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

// policies are what the configuration says of keys by pattern.
type policies struct {
	keys   []scheduler.Policy
	paused map[scheduler.Key]string // with the reason
	reach  []reachRule
}

// parsePolicies reads lines like
//
//	sysctl/ drift=alert audit=10m
//	route/ deletions=1000,80%
//	interface/ disruptions=5/min
//	microservice/ hold-down=2s
//	interface/uplink pause=cabling existing=eth1
//	* pid=none path=/run/netns/*
//
// A pattern is a key, all below a prefix that ends in a slash, or * for all.
func parsePolicies(lines []string) (policies, error) {
	p := policies{paused: map[scheduler.Key]string{}}
	for _, l := range lines {
		f := strings.Fields(l)
		if len(f) < 2 {
			return p, fmt.Errorf(`policy %q: want a pattern and what is so, as in "interface/ drift=alert"`, l)
		}
		k := scheduler.Policy{Keys: scheduler.Key(f[0])}
		if f[0] == "*" {
			k.Keys = ""
		}
		for _, word := range f[1:] {
			name, value, _ := strings.Cut(word, "=")
			if name == "pause" && value != "" && k.Keys != "" {
				p.paused[k.Keys] = value
				continue
			}
			if isReach(name) {
				rule, err := newReachRule(k.Keys, name, value)
				if err == nil && p.hasReach(rule) {
					err = fmt.Errorf("there is another %s= for %q", name, f[0])
				}
				if err != nil {
					return p, fmt.Errorf("policy %q: %w", l, err)
				}
				p.reach = append(p.reach, rule)
				continue
			}
			if err := setPolicy(&k, name, value); err != nil {
				return p, fmt.Errorf("policy %q: %w", l, err)
			}
		}
		if k != (scheduler.Policy{Keys: k.Keys}) {
			p.keys = append(p.keys, k)
		}
	}
	return p, scheduler.CheckPolicies(p.keys)
}

// deletions is how much may go at once where no policy says otherwise.
var deletions = scheduler.Deletions{Most: 200, Percent: 50}

// withDeletions sets it for all keys.
func withDeletions(keys []scheduler.Policy) []scheduler.Policy {
	for i := range keys {
		if keys[i].Keys == "" {
			if keys[i].Deletions == (scheduler.Deletions{}) {
				keys[i].Deletions = deletions
			}
			return keys
		}
	}
	return append(keys, scheduler.Policy{Deletions: deletions})
}

func setPolicy(k *scheduler.Policy, name, value string) (err error) {
	switch name {
	case "drift":
		for _, d := range []scheduler.DriftPolicy{scheduler.DriftRepair, scheduler.DriftAlert, scheduler.DriftIgnore} {
			if d.String() == value {
				k.Drift = d
				return nil
			}
		}
		return fmt.Errorf("drift=%s: want repair, alert or ignore", value)
	case "hold-down":
		k.HoldDown, err = positive(value)
	case "audit":
		k.Audit, err = positive(value)
	case "deletions":
		k.Deletions, err = scheduler.ParseDeletions(value)
	case "disruptions":
		k.Disruptions, err = scheduler.ParseDisruptions(value)
	default:
		return fmt.Errorf("%q: want drift=, hold-down=, audit=, deletions=, disruptions=, %s, or pause= with a reason and not for *", name, strings.Join(reachWords(), "=, ")+"=")
	}
	if err != nil {
		return fmt.Errorf("%s=%s: %w", name, value, err)
	}
	return nil
}

func positive(value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf(`want a time like "30s" or "10m"`)
	}
	return d, nil
}
