package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// silence is for how long a watch may bring nothing. The API server sends a bookmark each minute. A watch
	// from a version ahead of the server, which was restored from a backup, brings nothing for ever.
	silence = 90 * time.Second
	// firstRetry and lastRetry bound the time until the API server is tried again.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 10 * time.Second
	// lastRefused bounds the time until a resource is tried again that the API server does not serve or denies.
	lastRefused = time.Minute
)

// mirror is a store that a follower fills.
type mirror interface {
	cache.ReflectorStore
	// hear restarts the measurement of silence, and silence returns the time since the last message of the server.
	hear()
	silence() time.Duration
	// refuse notes that the API server does not serve the resource, or denies it.
	refuse(err error)
	// unconfirmed returns when the oldest removal was seen that has to be confirmed, and false if there is none.
	unconfirmed() (since time.Time, any bool)
	// confirm removes the objects whose removals were seen until a time.
	confirm(until time.Time)
	// comesFrom records the UID of the CRD of the objects that follow, or "" if it is unknown.
	comesFrom(crd types.UID)
	// isFrom reports whether a UID can be the one that comesFrom recorded.
	isFrom(crd types.UID) bool
}

// follower keeps a store equal to the objects of a resource that concern a node.
type follower struct {
	resource   resource
	kubeconfig string
	node       string
	store      mirror
	silence    time.Duration
	log        *slog.Logger
	// changed is called when reached has changed.
	changed func()
	// mayRemove reports whether removals may be confirmed. It is nil if the resource is not optional.
	mayRemove func() bool
	// removals signals removals that have to be confirmed.
	removals <-chan struct{}

	mu     sync.Mutex       // guards what follows
	client *rest.RESTClient // of this turn
	err    error            // of the last request; nil: the server answers
	since  time.Time        // when the requests began to fail
}

var (
	errNever  = errors.New("the API server was not asked yet")
	errClosed = errors.New("the connection was closed without an answer")
)

// run follows until ctx ends. Each turn lists all objects and then watches them, for as long as that goes on.
func (f *follower) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(quiet{f.log.Handler()}))
	wait := firstRetry
	for ctx.Err() == nil {
		began := time.Now()
		last := lastRetry
		if _, refused := f.refusing(f.turn(ctx)); refused {
			last = lastRefused
		}
		if time.Since(began) > last {
			wait = firstRetry
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait)):
		}
		wait = min(2*wait, last)
	}
}

// turn lists and watches once. A reflector of its own makes it begin with what the API server has now, and not
// with a version that the server may no longer have, or not yet. It returns why the turn ended.
func (f *follower) turn(ctx context.Context) error {
	c, err := connect(f.kubeconfig, f.resource) // again in each turn: the file may have been replaced
	if err != nil {
		f.note(err)
		return err
	}
	defer c.Client.CloseIdleConnections()
	f.mu.Lock()
	f.client = c
	f.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	f.store.hear()
	var guard sync.WaitGroup
	defer guard.Wait()
	defer stop()
	guard.Go(func() {
		for {
			rest := f.silence - f.store.silence()
			if rest <= 0 {
				f.log.Warn("the API server was silent; its objects are listed again", "resource", f.resource.plural, "for", f.silence)
				stop()
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(rest):
			}
		}
	})
	if f.resource.optional {
		crd, _, err := f.origin(ctx, c)
		if err != nil {
			f.note(err)
			return err
		}
		f.store.comesFrom(crd)
		guard.Go(func() { f.confirm(ctx, c, stop) })
	}
	r := cache.NewReflectorWithOptions(listWatch{f, c}, f.resource.object, f.store,
		cache.ReflectorOptions{Name: f.resource.plural + " of " + f.node, TypeDescription: f.resource.kind})
	err = r.ListAndWatchWithContext(ctx)
	if err != nil && ctx.Err() == nil {
		f.note(err)
	}
	return err
}

// refusal is the error of an API server that does not serve an optional resource, or denies it.
type refusal struct{ error }

// refusing returns a refusal if err is one.
func (f *follower) refusing(err error) (refusal, bool) {
	var r refusal
	if errors.As(err, &r) {
		return r, true
	}
	return refusal{err}, f.resource.optional && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err))
}

// note remembers whether the server answers. A refusal is an answer.
func (f *follower) note(err error) {
	if r, ok := f.refusing(err); ok {
		f.store.refuse(r.error)
		err = nil
		defer f.changed()
	}
	f.mu.Lock()
	was := f.err
	f.err = err
	if err != nil && (was == nil || errors.Is(was, errNever)) {
		f.since = time.Now()
	}
	f.mu.Unlock()
	if (was == nil) != (err == nil) || err != nil && was != nil && was.Error() != err.Error() {
		f.changed()
	}
}

// get reads one pod, with the client of this turn.
func (f *follower) get(ctx context.Context, namespace, name string) (*object, error) {
	f.mu.Lock()
	c := f.client
	f.mu.Unlock()
	if c == nil {
		return nil, errNever
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	o := &object{}
	return o, c.Get().Resource("pods").Namespace(namespace).Name(name).Do(ctx).Into(o)
}

// trouble returns why requests fail and since when, or "". asked is false before the first request.
func (f *follower) trouble() (why string, asked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err == nil:
		return "", true
	case errors.Is(f.err, errNever):
		return f.err.Error(), false
	}
	return fmt.Sprintf("requests to the API server fail since %s: %v", f.since.UTC().Format(time.RFC3339), f.err), true
}

// listWatch sends the requests of the reflector. A request that fails ends the turn: the retries of the reflector
// do not end with its context.
type listWatch struct {
	*follower
	client *rest.RESTClient
}

func (l listWatch) options(o metav1.ListOptions) metav1.ListOptions {
	o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", l.node).String()
	if o.ResourceVersion == "0" { // anything that some API server still has in memory, however old
		o.ResourceVersion = ""
	}
	return o
}

// ListWithContext implements [cache.ListerWithContext].
func (l listWatch) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o = l.options(o)
	list := l.resource.newList()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := l.client.Get().Resource(l.resource.plural).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
	if err != nil { // success is noted by the watch that follows
		l.note(err)
	}
	return list, l.final(err)
}

// WatchWithContext implements [cache.WatcherWithContext].
func (l listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o = l.options(o)
	o.Watch = true
	// A request that fails is followed by a list, which shows whether the server is the same. The client does not
	// repeat it: the version may be ahead of a server that comes back with a backup.
	w, err := l.client.Get().Resource(l.resource.plural).VersionedParams(&o, metav1.ParameterCodec).MaxRetries(0).
		Timeout(time.Duration(*o.TimeoutSeconds) * time.Second).Watch(ctx)
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
		err = errClosed // the client makes an empty watch of a connection that was closed
	}
	if ctx.Err() == nil {
		l.note(err)
	}
	return w, l.final(err)
}

// List implements [cache.Lister].
func (l listWatch) List(o metav1.ListOptions) (runtime.Object, error) {
	return l.ListWithContext(context.Background(), o)
}

// Watch implements [cache.Watcher].
func (l listWatch) Watch(o metav1.ListOptions) (watch.Interface, error) {
	return l.WatchWithContext(context.Background(), o)
}

// final hides the type of an error, so that the reflector does not retry.
func (f *follower) final(err error) error {
	if err == nil {
		return nil
	}
	if r, ok := f.refusing(err); ok {
		return r
	}
	return errors.New(err.Error())
}

// quiet drops the messages of client-go at the level info: they do not concern operators.
type quiet struct{ slog.Handler }

// Enabled implements [slog.Handler].
func (q quiet) Enabled(ctx context.Context, level slog.Level) bool {
	return level > slog.LevelInfo && q.Handler.Enabled(ctx, level)
}

// WithAttrs implements [slog.Handler].
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup implements [slog.Handler].
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }
