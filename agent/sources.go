package agent

import (
	"context"
	"io"
	"log/slog"
	"slices"

	"github.com/plumb-net/plumb/plugins/buildinfo"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/etcd"
	"github.com/plumb-net/plumb/plugins/file"
	"github.com/plumb-net/plumb/plugins/fleet/record"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/nodes"
	"github.com/plumb-net/plumb/scheduler"
)

// sourceKind is one kind of source of intent. docs/adding-a-source.md shows how one is added.
type sourceKind struct {
	name string
	// used reports whether a configuration has such a source.
	used func(Config) bool
	// open creates the source. Nil if a component with other duties submits the transactions.
	open func(*agent) intent.Source
	// optional: the agent is ready, and serves what asks for that, before the source is complete and while
	// its origin cannot be reached.
	optional bool
}

// sourceKinds lists all sources, the strongest first: the stronger of two sources decides the value of a key.
// Unwanted objects are deleted only after each source has submitted a complete transaction.
var sourceKinds = []sourceKind{
	{name: etcd.Source, used: always, open: func(a *agent) intent.Source { return a.store }},
	{name: cni.Source, used: always},
	{name: file.Name, used: func(c Config) bool { return c.Intent != "" }, open: func(a *agent) intent.Source {
		return file.New(a.config.Intent, a.sched, file.Options{Log: a.log.With("part", "file")})
	}},
	{name: nodes.Name, used: func(c Config) bool { return c.Kubeconfig != "" }, open: (*agent).openNodeIntents, optional: true},
	// Values of pods are weaker than values of operators: anyone who may create a pod may write its annotations.
	{name: kubernetes.Name, used: func(c Config) bool { return c.Kubeconfig != "" }, open: (*agent).openPods, optional: true},
	{name: ledgerSource, used: always},
}

// isOptional reports whether a source is optional.
func isOptional(source string) bool {
	return slices.ContainsFunc(sourceKinds, func(k sourceKind) bool { return k.name == source && k.optional })
}

// required are the sources of intent without those that are optional.
func required(sources []scheduler.SourceState) []scheduler.SourceState {
	return slices.DeleteFunc(withoutLedger(sources), func(s scheduler.SourceState) bool { return isOptional(s.Name) })
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

func storeConfig(c Config, log *slog.Logger) etcd.Config {
	labels, _ := record.ParseLabels(c.Labels) // checked
	return etcd.Config{
		Label: c.Label, StateDir: c.StateDir, RunDir: c.RunDir,
		Endpoints: c.Etcd, CAFile: c.EtcdCA, CertFile: c.EtcdCert, KeyFile: c.EtcdKey,
		User: c.EtcdUser, PasswordFile: c.EtcdPasswordFile,
		Version: buildinfo.Version(), Labels: labels, Log: log.With("part", "etcd"),
	}
}

// RecoverStore puts damaged data of the embedded etcd aside and begins a new
// store with what can be read.
func RecoverStore(ctx context.Context, c Config, force bool, log *slog.Logger, out io.Writer) error {
	return etcd.Recover(ctx, storeConfig(c, log), force, out)
}
