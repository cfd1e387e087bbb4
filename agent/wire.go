package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/plumb-net/plumb/descriptors/address"
	"github.com/plumb-net/plumb/descriptors/announce"
	"github.com/plumb-net/plumb/descriptors/fdb"
	"github.com/plumb-net/plumb/descriptors/forward"
	"github.com/plumb-net/plumb/descriptors/hostlink"
	"github.com/plumb-net/plumb/descriptors/iface"
	"github.com/plumb-net/plumb/descriptors/ipam"
	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/keyfile"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/descriptors/microservice"
	"github.com/plumb-net/plumb/descriptors/mirror"
	"github.com/plumb-net/plumb/descriptors/namespace"
	"github.com/plumb-net/plumb/descriptors/neighbor"
	"github.com/plumb-net/plumb/descriptors/netns"
	"github.com/plumb-net/plumb/descriptors/nexthop"
	"github.com/plumb-net/plumb/descriptors/nftables"
	"github.com/plumb-net/plumb/descriptors/proxy"
	"github.com/plumb-net/plumb/descriptors/qdisc"
	"github.com/plumb-net/plumb/descriptors/route"
	"github.com/plumb-net/plumb/descriptors/rule"
	"github.com/plumb-net/plumb/descriptors/selector"
	"github.com/plumb-net/plumb/descriptors/sysctl"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/buildinfo"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/confirm"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/etcd"
	"github.com/plumb-net/plumb/plugins/events"
	"github.com/plumb-net/plumb/plugins/fleet/member"
	"github.com/plumb-net/plumb/plugins/historylog"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/keyfiles"
	"github.com/plumb-net/plumb/plugins/kubernetes"
	"github.com/plumb-net/plumb/plugins/kubernetes/nodes"
	"github.com/plumb-net/plumb/plugins/ledger"
	"github.com/plumb-net/plumb/plugins/loglevel"
	"github.com/plumb-net/plumb/plugins/metrics"
	"github.com/plumb-net/plumb/plugins/private"
	"github.com/plumb-net/plumb/plugins/resources"
	"github.com/plumb-net/plumb/plugins/trace"
	"github.com/plumb-net/plumb/plugins/ui"
	"github.com/plumb-net/plumb/scheduler"
)

// host is what stands under the scheduler: the kernel, and what we know of our
// own in it. The agent and cleanup share it.
type host struct {
	locks  *locks
	ledger *ledger.Ledger
	kernel *ground
	owner  *kernel.Owner
	// announcer tells neighbours where addresses are; nil while nothing is made.
	announcer *announce.Announcer
	// given is what the pools have given to claims. It is a ledger of its own, since
	// it holds across boots.
	given *ledger.Ledger
	book  *ipam.Book
	// attached is which containers are attached to networks.
	attached *ledger.Ledger
	// store is the same, read. The kinds know by it where pods are.
	store *cni.Store
	// places finds namespaces, once the kinds are registered.
	places selector.Places
	// enslaving names objects of others that stop working when links join their masters. It is set once the
	// kinds are registered.
	enslaving func(ctx context.Context, keys []string, value func(key string) *models.Interface) []string
	boot      string
	// lost is what the ledgers cannot tell any more.
	lost *losses
	log  *slog.Logger
}

// openHost opens the kernel and locks the state directory; read is next.
func openHost(c Config, open func(Config) (*ground, error), log *slog.Logger) (*host, error) {
	k, err := open(c)
	if err != nil {
		return nil, err
	}
	h := &host{kernel: k, log: log}
	if h.locks, err = takeLocks(c, k.labels, log); err == nil {
		err = keepLabel(c, log)
	}
	if err != nil {
		h.close()
		return nil, err
	}
	return h, nil
}

// read reads what is known of our own in the kernel.
func (h *host) read(c Config, log *slog.Logger) (err error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("boot id: %w", err)
	}
	h.boot = strings.TrimSpace(string(boot))
	h.lost = openLosses(c.StateDir)
	found := map[string]ledger.Found{}
	for file, at := range map[string]**ledger.Ledger{ledgerFile: &h.ledger, givenFile: &h.given, attachedFile: &h.attached} {
		if *at, found[file], err = h.openLedger(c, file, log); err != nil {
			return err
		}
	}
	h.book = ipam.Open(h.given, failpoint())
	var unread []error
	h.store, unread = cni.OpenStore(withFailpoint(h.attached, "attachment"))
	if err := h.unreadable(unread, log); err != nil {
		return err
	}
	h.owner = kernel.NewOwner(c.Label, h.boot, h.ledger, failpoint())
	h.forgetOldBoots(log)
	return h.survey(c, found, log)
}

// forgetOldBoots forgets what earlier boots made. First it removes what proxies have left on
// disk: socket files, at which nobody can listen any more.
func (h *host) forgetOldBoots(log *slog.Logger) {
	var ids []string
	for _, e := range h.owner.OfOldBoots() {
		if err := proxy.RemoveLeft(h.kernel.Proxies(), e); err != nil {
			log.Warn("a socket file of an earlier boot cannot be removed", "key", e.ID, "error", err)
		}
		ids = append(ids, e.ID)
	}
	h.owner.Remove(ids...)
}

// proxyFigures are what the processes of proxies have done, by key.
func (h *host) proxyFigures() map[string]kernel.ProxyFigures {
	all := map[string]kernel.ProxyFigures{}
	for mark, f := range h.kernel.Proxies().Figures(context.Background()) {
		if key, ours := h.owner.MarkedKey(mark); ours {
			all[key] = f
		}
	}
	return all
}

// openLedger opens one of the ledgers. That it is damaged or stale is noted before it is written
// anew. Its witness is in the run directory, which a restored state directory does not bring.
func (h *host) openLedger(c Config, file string, log *slog.Logger) (*ledger.Ledger, ledger.Found, error) {
	path := filepath.Dir(filepath.Join(c.StateDir, file))
	if err := private.Make(path); err != nil {
		return nil, ledger.Found{}, err
	}
	return ledger.Open(path, ledger.WitnessOf(c.RunDir, file, h.boot), func(f ledger.Found) error {
		if f.Stale {
			f.Damage = "it is not the file that the last run of this boot wrote, but an older or another one"
		}
		log.Warn("a ledger is damaged", "file", file, "detail", f.Damage, "copy", f.Aside)
		return h.lost.add(file, f.Damage, f.Aside)
	})
}

// unreadable notes the entries that this release cannot read. They stay where they are.
func (h *host) unreadable(attachments []error, log *slog.Logger) error {
	for file, list := range map[string][]error{attachedFile: attachments, givenFile: h.book.Unread} {
		if len(list) == 0 {
			continue
		}
		log.Warn("entries of a ledger cannot be read, and are left alone", "file", file, "error", errors.Join(list...))
		if err := h.lost.add(file, fmt.Sprintf("%d entries cannot be read (first: %v)", len(list), list[0]), ""); err != nil {
			return err
		}
	}
	if h.lost.String() != "" {
		h.store.Doubt()
	}
	return nil
}

func (h *host) close() {
	if h.kernel != nil {
		h.kernel.end()
	}
	if h.ledger != nil {
		_ = h.ledger.Close()
	}
	if h.given != nil {
		_ = h.given.Close()
	}
	if h.attached != nil {
		_ = h.attached.Close()
	}
	if h.locks != nil {
		h.locks.release()
	}
}

// keyFile reads a key of WireGuard's.
func keyFile(file string) (k models.WireGuardKey, err error) {
	text, err := private.ReadSecret(file)
	if err != nil {
		return k, err
	}
	if k, err = models.ParseWireGuardKey(text); err != nil {
		return k, fmt.Errorf("%s holds %w", file, err)
	}
	return k, nil
}

// registerLinux registers the kinds that live in the kernel. containers may be nil, and
// so may reach, which then bounds nothing.
func registerLinux(s *scheduler.Scheduler, h *host, c Config, containers microservice.Source, reach *reach) error {
	views := selector.Views{NamedDir: c.NetnsDir, Pods: h.store, Refused: reach.refused}
	if containers != nil {
		services, err := scheduler.Register(s, microservice.Microservices(containers))
		if err != nil {
			return err
		}
		all, err := scheduler.Register(s, microservice.Containers(containers))
		if err != nil {
			return err
		}
		views.Microservices, views.Containers, views.Source = services, all, containers
	}
	if err := registerIPAM(s, h.book); err != nil {
		return err
	}
	named, err := scheduler.Register(s, netns.New(h.kernel, h.owner, netns.Options{Dir: c.NetnsDir, Refused: reach.refused}))
	if err != nil {
		return err
	}
	refs, err := scheduler.Register(s, namespace.New(h.kernel, namespace.Options{Pods: h.store, Refused: reach.refused}))
	if err != nil {
		return err
	}
	views.NetNS, views.Refs = named, refs

	names, places := &kernel.Names{}, selector.NewResolver(h.kernel, views)
	h.places = places
	self := &iface.Self{}
	_, err = scheduler.Register(s, hostlink.New(hostlink.Deps{Kernel: h.kernel, Owner: h.owner, Names: names, Places: places}))
	if err != nil {
		return err
	}
	if err := registerKeyFiles(s, h.owner); err != nil {
		return err
	}
	deps := iface.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Places: places, Interfaces: self, Announcer: h.announcer,
		KeyFile: keyFile, Shadow: c.Shadow == on,
		Everywhere: func() { openAllNamespaces(h.kernel, c) },
		Copied: func(l kernel.Link, key string) {
			h.log.Warn("link of others bears a copy of our mark; it stays foreign", "link", l.Name, "netns", l.NS, "key", key)
		},
		Leaving: func(k scheduler.Key, v *models.Interface) error {
			return cni.Queue{Dir: c.RunDir}.Leaving(h.store, string(k), v)
		}}
	interfaces, err := scheduler.Register(s, iface.New(deps))
	if err != nil {
		return err
	}
	h.enslaving = iface.Enslaving(deps)
	self.Bind(interfaces)
	var addresses *scheduler.Kind[*models.Address, kernel.AddressRef]
	addresses, err = scheduler.Register(s, address.New(address.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Interfaces: interfaces, Claims: h.book, Announcer: h.announcer,
		Wanted: func(k scheduler.Key) bool { _, wanted := addresses.Wanted(k); return wanted }}))
	if err != nil {
		return err
	}
	nexthops, err := registerNexthops(s, h, names, places, interfaces)
	if err != nil {
		return err
	}
	var routes *scheduler.Kind[*models.Route, kernel.LinkRef]
	routes, err = scheduler.Register(s, route.New(route.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Places: places, Interfaces: interfaces, Nexthops: nexthops, Claims: h.book,
		Wanted: func(k scheduler.Key) bool { _, wanted := routes.Wanted(k); return wanted }}))
	if err != nil {
		return err
	}
	if _, err := scheduler.Register(s, route.OnLink()); err != nil {
		return err
	}
	return registerOnInterfaces(s, h, names, places, interfaces)
}

// registerKeyFiles registers the files with keys of interfaces. What was made with a file is in the
// ledger.
func registerKeyFiles(s *scheduler.Scheduler, owner *kernel.Owner) error {
	users := func(file string) (keys []scheduler.Key) {
		for _, e := range owner.Entries(models.InterfaceKey("")) {
			if iface.NamesKeyFile(kind.InterfaceOf(e), file) {
				keys = append(keys, scheduler.Key(e.ID))
			}
		}
		return keys
	}
	_, err := scheduler.Register(s, keyfile.New(keyfile.Deps{
		Check:  func(file string) error { _, err := keyFile(file); return err },
		Follow: keyfiles.Follow,
		InUse:  func(file string) bool { return len(users(file)) > 0 },
		Changed: func(file string) {
			if keys := users(file); len(keys) > 0 {
				s.Submit(scheduler.Txn{Source: models.KindKeyFile, Note: file + " changed", Look: keys})
			}
		},
	}))
	return err
}

// registerNexthops registers the nexthops and tells what is in place of them.
func registerNexthops(s *scheduler.Scheduler, h *host, names *kernel.Names, places selector.Places, interfaces kind.Interfaces) (kind.Nexthops, error) {
	var nexthops *scheduler.Kind[*models.Nexthop, kernel.LinkRef]
	get := func(k scheduler.Key) (*models.Nexthop, kernel.LinkRef, bool) { return nexthops.Get(k) }
	nexthops, err := scheduler.Register(s, nexthop.New(nexthop.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Places: places, Interfaces: interfaces, Nexthops: get,
		Wanted: func(k scheduler.Key) bool { _, wanted := nexthops.Wanted(k); return wanted }}))
	return get, err
}

// registerOnInterfaces registers the kinds that depend on interfaces and that no other
// kind asks about.
func registerOnInterfaces(s *scheduler.Scheduler, h *host, names *kernel.Names, places selector.Places, interfaces kind.Interfaces) error {
	var rules *scheduler.Kind[*models.Rule, kernel.LinkRef]
	var err error
	rules, err = scheduler.Register(s, rule.New(rule.Deps{
		Kernel: h.kernel, Owner: h.owner, Places: places, Interfaces: interfaces,
		Wanted: func(k scheduler.Key) bool { _, wanted := rules.Wanted(k); return wanted }}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, neighbor.New(neighbor.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Interfaces: interfaces}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, fdb.New(fdb.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Interfaces: interfaces}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, qdisc.New(qdisc.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Interfaces: interfaces}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, mirror.New(mirror.Deps{
		Kernel: h.kernel, Owner: h.owner, Names: names, Interfaces: interfaces}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, sysctl.New(sysctl.Deps{
		Kernel: h.kernel, Owner: h.owner, Places: places, Interfaces: interfaces}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, nftables.New(nftables.Deps{
		Kernel: h.kernel, Tables: h.kernel.Tables(), Owner: h.owner, Places: places, Claims: h.book, Interfaces: interfaces}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, forward.New(forward.Deps{
		Kernel: h.kernel, Firewalls: h.kernel.Firewalls(), Owner: h.owner, Interfaces: interfaces}))
	if err != nil {
		return err
	}
	_, err = scheduler.Register(s, proxy.New(proxy.Deps{
		Kernel: h.kernel, Proxies: h.kernel.Proxies(), Owner: h.owner, Places: places}))
	return err
}

// registerIPAM registers the kinds by which addresses are handed out.
func registerIPAM(s *scheduler.Scheduler, b *ipam.Book) error {
	_, err := scheduler.Register(s, ipam.Pools(b))
	if err == nil {
		_, err = scheduler.Register(s, ipam.Leases(b))
	}
	if err == nil {
		_, err = scheduler.Register(s, ipam.Claims(b))
	}
	return err
}

// agent is everything that runs, wired.
type agent struct {
	config  Config
	log     *slog.Logger
	levels  *loglevel.Levels
	recent  *recent
	host    *host
	history *historylog.Log // nil with --history 0, and if historyLost
	traces  *trace.Tracer   // nil without --otlp
	sched   *scheduler.Scheduler
	tracker *container.Tracker
	// resources is what containers use, nil with --resources off.
	resources *resources.Collector
	store     *etcd.Plugin
	sources   []intent.Source // the store among them
	// pods is the source of the pods of this node, nil without --kubeconfig.
	pods        *kubernetes.Source
	nodeIntents *nodes.Source
	cni         *attacher
	reach       *reach
	// firewalls are what others have made to stop packets, as far as CNI has to tell.
	firewalls firewallView
	// confirms takes back what nobody confirms.
	confirms *confirm.Confirmer
	freezer  *freezer
	api      *api.Server
	member   *member.Member
	gate     *access.Gate  // nil without --listen
	serves   chan struct{} // closed once the API listens
	// surroundings is what somebody removed from the directories.
	surroundings *surroundings
	started      time.Time
	// historyLost is why the history is in memory only, if it could not be opened.
	historyLost error

	recorder   *recorder
	eventFile  *events.File      // nil with --events 0
	eventsFrom uint64            // the last number that is in the file
	told       []container.Event // by earlier runs, for the tracker
}

func wire(c Config, open func(Config) (*ground, error), out slog.Handler) (_ *agent, err error) {
	kept, levels := new(recent), c.Levels()
	log := slog.New(levels.Handler(kept.beside(out)))
	a := &agent{config: c, log: log, levels: levels, recent: kept, serves: make(chan struct{}), surroundings: newSurroundings(log), started: time.Now()}
	if a.gate, err = a.openGate(); err != nil {
		return nil, err
	}
	if a.host, err = openHost(c, open, log); err != nil {
		return nil, err
	}
	store := storeConfig(c, log)
	store.Early = etcd.StartEarly(store)
	defer func() {
		if err != nil {
			store.Early.Close()
			a.host.close()
		}
	}()
	if err := a.host.read(c, log); err != nil {
		return nil, err
	}
	a.host.announcer = announce.New(a.host.kernel, log.With("part", "announcer"))
	earlier, err := a.openHistory()
	if err != nil {
		return nil, err
	}
	said, err := parsePolicies(c.Policy)
	if err != nil {
		return nil, err
	}
	a.reach = newReach(a.host.kernel, c.NetnsDir, said.reach)
	a.sched = scheduler.New(scheduler.Options{Sources: sourcesOf(c), Earlier: earlier, Policies: withDeletions(said.keys), Log: log.With("part", "scheduler")})
	for k, reason := range said.paused {
		if err := a.sched.Pause(k, reason, time.Time{}); err != nil {
			return nil, err
		}
	}
	if c.OTLP != "" {
		a.traces, err = trace.New(trace.Options{Endpoint: c.OTLP, Label: c.Label, Version: buildinfo.Version(), Log: log.With("part", "traces")})
		if err != nil {
			return nil, err
		}
	}
	if a.freezer, err = openFreezer(c.StateDir, a.sched, a.log); err != nil {
		return nil, err
	}
	if c.Shadow == on {
		if err := a.freezer.beShadow(); err != nil {
			return nil, err
		}
	}
	if err := a.openEvents(); err != nil {
		return nil, err
	}
	if err := a.wireSources(store); err != nil {
		return nil, err
	}
	if err := registerLinux(a.sched, a.host, c, a.tracker, a.reach); err != nil {
		return nil, err
	}
	a.wireCNI()
	if err := a.recall(); err != nil {
		return nil, err
	}
	a.wireConfirms()
	if err := a.wireAPI(); err != nil {
		return nil, err
	}
	a.member = member.New(member.Options{
		Store: a.store, API: a.api, Confirms: a.confirms, As: api.As,
		Moved: func() uint64 { return a.sched.Figures().Rounds }, Log: a.log.With("part", "fleet"),
	})
	return a, nil
}

// openHistory reads what earlier runs did.
func (a *agent) openHistory() (earlier []scheduler.Record, err error) {
	mib, err := strconv.ParseInt(a.config.History, 10, 64)
	if err != nil || mib == 0 {
		return nil, err
	}
	a.history, earlier, err = historylog.Open(a.config.StateDir, mib<<20, a.log.With("part", "history"))
	if err != nil { // nobody's network depends on it
		a.log.Warn("the history of earlier runs cannot be read, and that of this one is kept in memory only", "error", err)
		a.historyLost = err
	}
	return earlier, nil
}

func (a *agent) wireSources(store etcd.Config) error {
	c := a.config
	runtimes, err := c.runtimes()
	if err != nil {
		return err
	}
	rules, err := c.labelRules()
	if err != nil {
		return err
	}
	a.tracker, err = container.New(container.Options{
		LabelEnv: c.MicroserviceEnv, LabelKey: c.MicroserviceLabel, Labels: rules, Host: a.reach.namespaces(),
		Earlier: a.told, Past: a.recorder.past, Observer: a.recorder.observe, Log: a.log.With("part", "containers")}, runtimes...)
	if err != nil {
		return err
	}
	a.told = nil
	if err := a.wireResources(); err != nil {
		return err
	}
	if a.store, err = etcd.New(store, a.reach.decode, a.sched, func() etcd.StatusWatcher { return a.sched.Watch() }); err != nil {
		return err
	}
	a.openSources()
	return nil
}

// figures are where those for Prometheus come from.
func (a *agent) figures() metrics.Sources {
	var used func() []resources.Latest
	if a.resources != nil {
		used = a.resources.All
	}
	return metrics.Sources{
		Scheduler: a.sched, KernelWrites: a.host.kernel.Writes, Health: a.health, Containers: a.tracker.Runtimes, Resources: used,
		CNI: a.cni.server.Figures, Proxies: a.host.proxyFigures, Announcements: a.host.announcer.Figures, Events: a.recorder.figures(),
		Store: a.store, Held: a.heldDeletions, Frozen: func() bool { return a.freezer.Frozen() != nil },
		Unconfirmed: a.unconfirmed, Version: buildinfo.Version(), Commit: buildinfo.Commit(),
	}
}

// heldDeletions is how many deletions are held back.
func (a *agent) heldDeletions() (n int) {
	all, _ := a.sched.HeldBack() // it fails only when the scheduler has ended
	for _, h := range all {
		n += len(h.Keys)
	}
	return n
}

func (a *agent) wireAPI() (err error) {
	a.api, err = api.New(api.Config{
		Scheduler: api.Engine(a.sched), Store: a.store, StoreSource: etcd.Source, Confirms: a.confirms, Freezer: a.freezer, Surveyor: a,
		Decode: a.reach.decode, Place: a.place, Containers: a.tracker, Resources: a.used(), CNI: a.cni, Events: a.recorder.log, Health: a.health, Synced: a.synced, Accept: a.accept,
		Enslaving: a.host.enslaving,
		Metrics:   metrics.Handler(a.figures()),
		Pages:     ui.Handler(),
		Recent:    a.recent,
		Levels:    a.levels,
		Label:     a.config.Label, Version: buildinfo.Version(), Commit: buildinfo.Commit(), Started: a.started,
		Log: a.log.With("part", "api"),
	})
	return err
}
