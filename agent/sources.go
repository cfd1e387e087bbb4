package agent

import (
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/etcd"
	"github.com/plumb-net/plumb/plugins/file"
	"github.com/plumb-net/plumb/plugins/intent"
)

// sourceKind is one kind of source of intent. docs/adding-a-source.md shows how one is added.
type sourceKind struct {
	name string
	// used reports whether a configuration has such a source.
	used func(Config) bool
	// open creates the source. Nil if a component with other duties submits the transactions.
	open func(*agent) intent.Source
}

// sourceKinds lists all sources, the strongest first: the stronger of two sources decides the value of a key.
// Unwanted objects are deleted only after each source has submitted a complete transaction.
var sourceKinds = []sourceKind{
	{etcd.Source, always, func(a *agent) intent.Source { return a.store }},
	{cni.Source, always, nil},
	{file.Name, func(c Config) bool { return c.Intent != "" }, func(a *agent) intent.Source {
		return file.New(a.config.Intent, a.sched, file.Options{Log: a.log.With("part", "file")})
	}},
	{ledgerSource, always, nil},
}

func always(Config) bool { return true }

// sourcesOf returns the names of the sources of a configuration.
func sourcesOf(c Config) (names []string) {
	for _, k := range sourceKinds {
		if k.used(c) {
			names = append(names, k.name)
		}
	}
	return names
}

// openSources makes the sources of the configuration.
func (a *agent) openSources() {
	for _, k := range sourceKinds {
		if k.open != nil && k.used(a.config) {
			a.sources = append(a.sources, k.open(a))
		}
	}
}
