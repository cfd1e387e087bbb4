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
	"github.com/plumb-net/plumb/scheduler"
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
	Engine Engine
	// Silence is for how long the API server may be silent until its pods are listed again. Default: 90 s,
	// since a bookmark comes each minute.
	Silence time.Duration
	// Log gets what goes wrong; nil logs nothing.
	Log *slog.Logger
}

// Source submits the values that the pods of a node want.
type Source struct {
	opts   Options
	to     intent.Submitter
	store  *store[*Pod]
	follow *follower

	// The next two fields are used by Run only.
	pods map[string]*podState // by path
	// complete reports whether a complete transaction was submitted.
	complete bool

	mu     sync.Mutex // guards what follows
	health models.Health
	// wrong are the annotations that cannot be read, by path.
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

// view is a pod as the reporter sees it.
type view struct {
	pod   *Pod
	keys  []scheduler.Key
	wrong error // why the annotation cannot be read
	left  bool
}

// podState holds the desired values of the pods of one path.
type podState struct {
	pod    *Pod
	values intent.Values
	// left: the API server has deleted the pod, and its runtime has not detached it yet.
	left bool
}

// New returns a source that reads the pods of a node.
func New(to intent.Submitter, o Options) *Source {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Silence == 0 {
		o.Silence = silence
	}
	if o.Changed == nil {
		o.Changed = func(string) {}
	}
	news := make(chan struct{}, 1)
	s := &Source{opts: o, to: to, store: newStore(trimPod, news), pods: map[string]*podState{},
		wrong: map[string]error{}, gone: map[string]time.Time{}, asked: map[string]time.Time{},
		shown: map[string]view{}, bases: map[string]string{}, touched: map[string]bool{}, reports: make(chan struct{}, 1),
		health: models.Health{Name: Name, State: "starting", Reason: errNever.Error(), Since: time.Now()}}
	s.follow = &follower{resource: podResource, kubeconfig: o.Kubeconfig, node: o.Node, store: s.store, silence: o.Silence, log: o.Log, changed: s.report, err: errNever}
	return s
}

// Name implements [intent.Source].
func (s *Source) Name() string { return Name }

// Place implements [intent.Source]: pods have no places.
func (s *Source) Place(string) string { return "" }

// Run implements [intent.Source].
func (s *Source) Run(ctx context.Context) error {
	if s.opts.File != "" {
		pods, version, err := readCopy(s.opts.File)
		if err != nil {
			s.opts.Log.Warn("the copy of the pods cannot be used", "error", err)
		}
		s.store.load(pods, version)
	}
	s.mu.Lock()
	s.life = ctx
	s.mu.Unlock()
	var beside sync.WaitGroup
	defer beside.Wait()
	beside.Go(func() { s.follow.run(ctx) })
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
		case <-s.store.news:
			s.submit(s.take())
			s.report()
			unsaved = true
			save.Reset(saveDelay)
		case <-save.C:
			s.save()
			unsaved = false
		}
	}
}

// saveDelay is how long after a change the copy is written.
const saveDelay = time.Second

func (s *Source) save() {
	if s.opts.File == "" {
		return
	}
	var pods []*Pod
	for _, path := range slices.Sorted(maps.Keys(s.pods)) {
		if p := s.pods[path].pod; p != nil {
			pods = append(pods, p)
		}
	}
	if err := writeCopy(s.opts.File, pods, s.store.newest()); err != nil {
		s.opts.Log.Warn("the copy of the pods cannot be written", "error", err)
	}
}

// taken is a result of take.
type taken struct {
	pods          map[string]*Pod // the changed pods by path; nil if deleted
	listed, older bool
}

// take returns the pods that changed since the last call. After an operator has accepted an older API server, these
// are all pods, so that what was held back is withdrawn.
func (s *Source) take() taken {
	dirty, listed, older := s.store.take()
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held && !older {
		for path := range s.pods {
			dirty[path] = true
		}
	}
	t := taken{pods: make(map[string]*Pod, len(dirty)), listed: listed, older: older}
	for path := range dirty {
		t.pods[path] = s.store.get(path)
	}
	return t
}

// submit submits what changed pods want now.
func (s *Source) submit(t taken) {
	txn := scheduler.Txn{Source: Name, AsPreviewed: true}
	for _, path := range slices.Sorted(maps.Keys(t.pods)) {
		txn.Want = append(txn.Want, s.change(path, t.pods[path], t.older)...)
	}
	s.count(t.older)
	switch n := len(t.pods); n {
	case 1:
		for path := range t.pods {
			txn.Note = "pod " + path
		}
	default:
		txn.Note = fmt.Sprintf("%d pods", n)
	}
	if t.listed && !s.complete {
		// Keys that are not named are no longer wanted.
		s.complete, txn.Complete, txn.Want = true, true, intent.Changes(nil, s.all())
	}
	if txn.Complete || len(txn.Want) > 0 {
		s.to.Submit(txn)
	}
	for path := range t.pods {
		s.opts.Changed(path)
	}
}

// change takes in what the API server has of a path now, and returns what changes by that. If the server is
// older than what it had shown before, nothing is withdrawn.
func (s *Source) change(path string, p *Pod, older bool) []scheduler.Change {
	was := s.pods[path]
	if was == nil {
		was = &podState{}
	}
	now := &podState{pod: p}
	var wrong error
	switch {
	case p != nil && p.Ended && !s.attached(p):
		now.values = nil
	case p != nil:
		if now.values, wrong = valuesOf(p, s.opts.Decode); wrong != nil && was.pod != nil && was.pod.UID == p.UID {
			now.values = was.values
		}
	case was.pod != nil && s.attached(was.pod):
		now.pod, now.values, now.left = was.pod, was.values, true
	}
	if older {
		kept := intent.Values{}
		maps.Copy(kept, was.values)
		maps.Copy(kept, now.values)
		now.values = kept
	}
	s.mu.Lock()
	if wrong != nil {
		s.wrong[path] = wrong
	} else {
		delete(s.wrong, path)
	}
	if was.pod != nil && (p == nil || p.UID != was.pod.UID) {
		s.gone[was.pod.runtimeName()] = time.Now()
	}
	s.show(path, now, wrong)
	s.mu.Unlock()
	if s.pods[path] = now; now.pod == nil && len(now.values) == 0 {
		delete(s.pods, path)
	}
	return intent.Changes(was.values, now.values)
}

// show passes a pod to the reporter. The lock is held.
func (s *Source) show(path string, now *podState, wrong error) {
	if was, ok := s.shown[path]; ok {
		delete(s.bases, was.pod.keyBase())
		delete(s.shown, path)
	}
	if now.pod != nil {
		s.shown[path] = view{now.pod, slices.Sorted(maps.Keys(now.values)), wrong, now.left}
		s.bases[now.pod.keyBase()] = path
	}
	s.touched[path] = true
	select {
	case s.reports <- struct{}{}:
	default:
	}
}

// view returns a pod for the reporter.
func (s *Source) view(path string) (view, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.shown[path]
	return v, ok
}

// pathOf returns the path of the pod whose keys share a base, or "".
func (s *Source) pathOf(base string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bases[base]
}

// takeTouched returns the paths of the pods that changed since the last call.
func (s *Source) takeTouched() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.touched
	s.touched = map[string]bool{}
	return t
}

// noteWrite remembers whether statuses can be written.
func (s *Source) noteWrite(err error) {
	s.mu.Lock()
	was := s.writeErr
	if isGone(err) {
		err = nil
	}
	s.writeErr = err
	s.mu.Unlock()
	if err != nil && (was == nil || was.Error() != err.Error()) {
		s.opts.Log.Warn("the status of a pod is not written; it is tried again", "error", err)
	}
	if (was == nil) != (err == nil) {
		s.report()
	}
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

// Detached tells the source that a runtime has detached a pod: one that the API server has deleted needs its
// values no longer.
func (s *Source) Detached(namespace, name string) { s.store.touch(namespace + "/" + name) }

// Accept accepts an API server that is older than before: values that it lacks are withdrawn.
func (s *Source) Accept() { s.store.accept() }

// count updates the number of keys, and drops the records of pods that no ADD can be waiting for.
func (s *Source) count(older bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys, s.held = 0, older
	for _, p := range s.pods {
		s.keys += len(p.values)
	}
	for _, m := range []map[string]time.Time{s.gone, s.asked} {
		maps.DeleteFunc(m, func(_ string, at time.Time) bool { return time.Since(at) > forget })
	}
}

// forget is the age at which records of deleted pods and of reads are dropped. No ADD waits so long.
const forget = 10 * time.Minute

// Health implements [intent.Source].
func (s *Source) Health() models.Health {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.health
	h.Details = maps.Clone(h.Details)
	return h
}

// report updates the health.
func (s *Source) report() {
	why, asked := s.follow.trouble()
	pods, listed, older := s.store.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	h := models.Health{Name: Name, State: "ok", Details: map[string]string{
		"node": s.opts.Node, "pods": fmt.Sprint(pods), "keys": fmt.Sprint(s.keys), "version": s.store.newest(),
	}}
	switch {
	case !asked:
		h.State, h.Reason = "starting", why
	case why != "":
		h.State, h.Reason = "down", why+"; the values of the pods stay"
	case !listed:
		h.State, h.Reason = "starting", "the pods were not listed yet"
	case older:
		h.State, h.Reason = "degraded", "the API server is older than before, as after a restore of its etcd; no value is withdrawn; "+
			"run \"agentctl resync --accept\" to accept it"
	case len(s.wrong) > 0:
		path := slices.Min(slices.Collect(maps.Keys(s.wrong)))
		h.Reason = fmt.Sprintf("the intent of the pod %s cannot be read: %v", path, s.wrong[path])
		if n := len(s.wrong) - 1; n > 0 {
			h.Reason += fmt.Sprintf("; and of %d more", n)
		}
	}
	if s.writeErr != nil {
		h.Details["statuses"] = "they are not written: " + s.writeErr.Error()
	}
	h.Since = s.health.Since
	if h.State != s.health.State {
		h.Since = time.Now()
		level := slog.LevelInfo
		if h.State == "down" || h.State == "degraded" {
			level = slog.LevelWarn
		}
		s.opts.Log.Log(context.Background(), level, "pods of the API server", "state", h.State, "reason", h.Reason)
	}
	s.health = h
}

// ErrDeleted reports that the API server has deleted a pod that is being attached.
var ErrDeleted = errors.New("the pod was deleted")

// Awaited returns why values for a pod that a runtime attaches may still come, or "". It returns ErrDeleted if the
// API server has deleted the pod. The first call for an unknown pod starts one read of that pod, in case the watch
// is late.
func (s *Source) Awaited(namespace, name, uid string) (string, error) {
	path := namespace + "/" + name
	p := s.store.get(path)
	known := p != nil && p.RuntimeUID == uid
	why, _ := s.follow.trouble()
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, gone := s.gone[path+"/"+uid]; gone && !known {
		return "", ErrDeleted
	}
	if known {
		if wrong := s.wrong[path]; wrong != nil {
			return fmt.Sprintf("its intent cannot be read: %v", wrong), nil
		}
		return "", nil
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
	if p := s.store.get(namespace + "/" + name); p != nil && p.RuntimeUID == uid {
		return
	}
	o, err := s.follow.get(ctx, namespace, name)
	if err == nil && o.Spec.NodeName == s.opts.Node && trimPod(o).RuntimeUID == uid {
		s.store.look(o)
	}
}
