package route

import (
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// compare: another identity is another route; everything else is replaced in
// one step by the kernel.
func compare(_ scheduler.Key, from, to *models.Route) scheduler.Verdict {
	var d kind.Differences
	must := func(field string, was, is any) { d.Must(was != is, field, was, is) }
	may := func(field string, was, is any) { d.May(was != is, field, was, is) }
	must("destination", destination(from), destination(to))
	must("table", from.EffectiveTable(), to.EffectiveTable())
	must("metric", from.EffectiveMetric(), to.EffectiveMetric())
	must("namespace", selector.Text(from.GetNamespace()), selector.Text(to.GetNamespace()))
	may("type", from.EffectiveType(), to.EffectiveType())
	may("way", ways(from), ways(to))
	switch {
	case isBehind(from):
		d.May(true, "order", from.GetSource(), "first")
	case from.GetSource() == moreSettings:
		d.May(true, "settings", "some that no value has", "none")
	default:
		may("source", source(from), source(to))
	}
	may("mtu", from.GetMtu(), to.GetMtu())
	d.May(from.GetAdopt() && !to.GetAdopt(), "adopt", true, false)
	may("onlink", from.GetOnlink(), to.GetOnlink())
	if to.EffectiveType() == "unicast" {
		may("scope", from.EffectiveScope(), to.EffectiveScope())
	}
	return d.Verdict()
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
