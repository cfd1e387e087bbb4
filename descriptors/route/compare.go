package route

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// compare: another identity is another route; everything else is replaced in
// one step by the kernel.
func compare(_ scheduler.Key, from, to *models.Route) scheduler.Verdict {
	var other, inPlace []string
	note := func(list *[]string, field string, was, is any) {
		if was != is {
			*list = append(*list, fmt.Sprintf("%s %s → %s", field, shown(was), shown(is)))
		}
	}
	note(&other, "destination", destination(from), destination(to))
	note(&other, "table", from.EffectiveTable(), to.EffectiveTable())
	note(&other, "metric", from.EffectiveMetric(), to.EffectiveMetric())
	note(&other, "namespace", selector.Text(from.GetNamespace()), selector.Text(to.GetNamespace()))
	note(&inPlace, "type", from.EffectiveType(), to.EffectiveType())
	note(&inPlace, "way", ways(from), ways(to))
	note(&inPlace, "source", source(from), source(to))
	note(&inPlace, "mtu", from.GetMtu(), to.GetMtu())
	note(&inPlace, "onlink", from.GetOnlink(), to.GetOnlink())
	if to.EffectiveType() == "unicast" {
		note(&inPlace, "scope", from.EffectiveScope(), to.EffectiveScope())
	}
	switch {
	case len(other) > 0:
		return scheduler.Verdict{Change: scheduler.Replace, Reason: strings.Join(append(other, inPlace...), ", ")}
	case len(inPlace) > 0:
		return scheduler.Verdict{Change: scheduler.InPlace, Reason: strings.Join(inPlace, ", ")}
	}
	return scheduler.Verdict{}
}

// destination is the destination in its one spelling, or the claim's name.
func destination(v *models.Route) string {
	if p, err := v.Prefix(); err == nil {
		return p.String()
	}
	return v.GetDestination()
}

// source is a preferred source address in its one spelling, or the claim's name.
func source(v *models.Route) string {
	if a := addr(v.GetSource()); a.IsValid() {
		return a.String()
	}
	return v.GetSource()
}

func shown(v any) string {
	if s := fmt.Sprint(v); s != "" {
		return s
	}
	return "none"
}

func equal(k scheduler.Key, actual, desired *models.Route) bool {
	return compare(k, actual, desired).Change == scheduler.Same
}

func disruption(k scheduler.Key, from, to *models.Route) scheduler.Disruption {
	switch {
	case from == nil:
		return scheduler.NoDisruption
	case to == nil:
		return scheduler.Disruptive
	}
	// In the order of the verdicts: same, in place, replace.
	return [...]scheduler.Disruption{scheduler.NoDisruption, scheduler.Brief, scheduler.Disruptive}[compare(k, from, to).Change]
}
