package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
	"github.com/plumb-net/plumb/plugins/kubernetes/readiness"
)

// Name is that of the source in transactions.
const Name = "kubernetes"

// Options of a source. Kubeconfig, Node, Decode and Attached are required.
type Options struct {
	// Kubeconfig is the file that says how the API server is reached, or InCluster. It may come later.
	Kubeconfig string
	// Node is the name of the node at the API server.
	Node string
	// File is where a copy of the pods is kept, or "" for no copy.
	File string
	// Decode decodes the values of pods.
	Decode Decoder
	// Attached reports whether a runtime has attached a pod, <namespace>/<name>/<uid>. It returns quickly.
	Attached func(pod string) bool
	// Changed, if not nil, is called when the result of [Source.Awaited] for a pod, <namespace>/<name>, may have
	// changed.
	Changed func(pod string)
	// Engine is asked for the statuses that are written to the pods. Nil: none are written.
	Engine readiness.Engine
	// Networks, if not nil, returns the attachments of a pod, <namespace>/<name>/<uid>, for the annotation
	// [NetworksAnnotation]. It returns quickly.
	Networks func(pod string) []Network
	// Silence is for how long the API server may be silent until its pods are listed again. Zero: as in
	// [mirror.Options].
	Silence time.Duration
	// Log gets what goes wrong; nil logs nothing.
	Log *slog.Logger
}

// Source submits the values that the pods of a node want.
type Source struct {
	opts   Options
	to     intent.Submitter
	store  *mirror.Store[*Pod]
	follow *mirror.Follower
	news   chan struct{} // signals changes of both stores
	// intents are the PodIntents, and followIntents keeps them.
	intents       *mirror.Store[*PodIntent]
	followIntents *mirror.Follower

	pods map[string]*podState // by path; used by Run only

	mu sync.Mutex // guards what follows
	// complete reports whether a complete transaction was submitted. Only Run changes it.
	complete bool
	health   models.Health
	// wrong are the errors of annotations and PodIntents that cannot be read, by the path of the pod.
	wrong map[string]error
	// held: the API server is older than what it had shown before, and nothing is withdrawn.
	held bool
	// gone are pods that were deleted, by <namespace>/<name>/<uid>, for the ADDs that wait for them.
	gone map[string]time.Time
	// asked are the UIDs of pods that were asked for by themselves.
	asked map[string]time.Time
	keys  int
	// life ends with Run; nil before.
	life context.Context
	// shown are the pods of the API server for the reporter, by path, and bases their paths by what their keys
	// share. touched are those that changed.
	shown    map[string]view
	bases    map[string]string
	touched  map[string]bool
	reports  chan struct{}
	writeErr error // of the last status that was to be written
}

// New returns a source that reads the pods of a node.
func New(to intent.Submitter, o Options) *Source {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	s := &Source{opts: o, to: to, news: make(chan struct{}, 1), pods: map[string]*podState{},
		wrong: map[string]error{}, gone: map[string]time.Time{}, asked: map[string]time.Time{},
		shown: map[string]view{}, bases: map[string]string{}, touched: map[string]bool{}, reports: make(chan struct{}, 1),
		health: models.Health{Name: Name, State: "starting", Reason: mirror.ErrNever.Error(), Since: time.Now()}}
	s.store = mirror.NewStore(podResource, trimPod, s.news)
	s.intents = mirror.NewStore(podIntentResource, trimPodIntent, s.news)
	follow := mirror.Options{Kubeconfig: o.Kubeconfig, Node: o.Node, Silence: o.Silence, Log: o.Log, Changed: s.report}
	follow.Resource, follow.Store = podResource, s.store
	s.follow = mirror.NewFollower(follow)
	// A PodIntent may be deleted with its pod, which keeps its values until its runtime detaches it. So the removal of
	// the pod has to be seen first.
	follow.MayRemove = func() bool { return s.store.State().Listed }
	follow.Resource, follow.Store = podIntentResource, s.intents
	s.followIntents = mirror.NewFollower(follow)
	return s
}

// Name implements [intent.Source].
func (s *Source) Name() string { return Name }

// Place implements [intent.Source]: pods have no places.
func (s *Source) Place(string) string { return "" }

// Run implements [intent.Source].
func (s *Source) Run(ctx context.Context) error {
	if s.opts.File != "" {
		saved, err := readCopy(s.opts.File)
		if err != nil {
			s.opts.Log.Warn("the copy of the pods cannot be used", "error", err)
		}
		s.load(saved)
	}
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.follow.Run(ctx) })
	beside.Go(func() { s.followIntents.Run(ctx) })
	if s.opts.Engine != nil {
		beside.Go(func() { newReporter(s).run(ctx) })
	}
	save := time.NewTimer(0)
	defer save.Stop()
	<-save.C
	unsaved := false
	for {
		select {
		case <-ctx.Done():
			if unsaved { // else the copy may have what was not taken yet
				s.save()
			}
			return nil
		case <-s.news:
			s.submit(s.take())
			s.report()
			if !unsaved { // pods may change all the time
				unsaved = true
				save.Reset(saveDelay)
			}
		case <-save.C:
			s.save()
			unsaved = false
		}
	}
}

// saveDelay is how long after the first change the copy is written.
const saveDelay = time.Second

func (s *Source) save() {
	if s.opts.File == "" {
		return
	}
	saved := savedPods{Version: s.store.Newest(), IntentVersion: s.intents.Newest(), CRD: s.intents.CRD()}
	intents := map[string]*PodIntent{}
	for _, path := range slices.Sorted(maps.Keys(s.pods)) {
		p := s.pods[path]
		if p.pod != nil {
			saved.Pods = append(saved.Pods, p.pod)
		}
		if p.left { // its PodIntents may be deleted by now
			for _, one := range p.wants.parts {
				intents[one.intent.Path()] = one.intent
			}
		}
	}
	for _, i := range s.intents.All() {
		intents[i.Path()] = i
	}
	for _, path := range slices.Sorted(maps.Keys(intents)) {
		saved.PodIntents = append(saved.PodIntents, intents[path])
	}
	if err := mirror.WriteCopy(s.opts.File, copyFormat, saved); err != nil {
		s.opts.Log.Warn("the copy of the pods cannot be written", "error", err)
	}
}

// load fills the stores with a saved copy.
func (s *Source) load(saved savedPods) {
	s.store.Load(saved.Pods, saved.Version, "")
	s.intents.Load(saved.PodIntents, saved.IntentVersion, saved.CRD)
}

func (s *Source) attached(p *Pod) bool { return s.opts.Attached(p.runtimeName()) }

// all returns all that is wanted.
func (s *Source) all() intent.Values {
	all := intent.Values{}
	for _, p := range s.pods {
		maps.Copy(all, p.values)
	}
	return all
}

// AttachmentsChanged tells the source that a runtime has attached or detached a pod. A detached pod that the API server has
// deleted needs its values no longer.
func (s *Source) AttachmentsChanged(namespace, name string) { s.store.Touch(namespace + "/" + name) }

// Accept accepts an API server that is older than before, or that lost its PodIntents: values that it lacks are
// withdrawn.
func (s *Source) Accept() {
	s.store.Accept()
	s.intents.Accept()
}

// ErrDeleted reports that the API server has deleted a pod that is being attached.
var ErrDeleted = errors.New("the pod was deleted")

// Awaited returns why values for a pod that a runtime attaches may still come, or "". It returns ErrDeleted if the
// API server has deleted the pod. The first call for an unknown pod starts one read of that pod, in case the watch
// is late.
func (s *Source) Awaited(namespace, name, uid string) (string, error) {
	path := namespace + "/" + name
	p := s.store.Get(path)
	known := p != nil && p.RuntimeUID == uid
	why, _ := s.follow.Trouble()
	whyIntents, _ := s.followIntents.Trouble()
	if st := s.intents.State(); whyIntents == "" && !st.Listed && st.Refused == nil {
		whyIntents = "the PodIntents were not listed yet"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, gone := s.gone[path+"/"+uid]; gone && !known {
		return "", ErrDeleted
	}
	if known {
		if wrong := s.wrong[path]; wrong != nil {
			return fmt.Sprintf("its intent cannot be read: %v", wrong), nil
		}
		return whyIntents, nil
	}
	if uid == "" {
		return "the runtime does not pass the UID of the pod (K8S_POD_UID), which values of annotations require", nil
	}
	if _, done := s.asked[path+"/"+uid]; !done {
		s.asked[path+"/"+uid] = time.Now()
		if s.life != nil {
			go s.look(s.life, namespace, name, uid)
		}
	}
	switch {
	case why != "":
		return why, nil
	case p != nil:
		return fmt.Sprintf("the API server has a pod of this name with the UID %s, not %s", p.RuntimeUID, uid), nil
	}
	return "the API server has no such pod on the node " + s.opts.Node, nil
}

// lookDelay is how long the watch may take to deliver a pod until the pod is read by a request of its own.
const lookDelay = 300 * time.Millisecond

// look reads one pod, unless the watch delivers it within lookDelay.
func (s *Source) look(ctx context.Context, namespace, name, uid string) {
	select {
	case <-time.After(lookDelay):
	case <-ctx.Done():
		return
	}
	if p := s.store.Get(namespace + "/" + name); p != nil && p.RuntimeUID == uid {
		return
	}
	o := &object{}
	err := s.follow.Get(ctx, namespace, name, o)
	if err == nil && o.Spec.NodeName == s.opts.Node && trimPod(o).RuntimeUID == uid {
		s.store.Look(o)
	}
}
