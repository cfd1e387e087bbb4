package mirror

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

// target is a [Store] whatever its type of objects.
type target interface {
	cache.ReflectorStore
	hear()
	silence() time.Duration
	isEmpty() bool
	Refuse(err error)
	Unconfirmed() (since time.Time, any bool)
	Confirm(until time.Time)
	ComesFrom(crd types.UID)
	isFrom(crd types.UID) bool
	unlisted() <-chan struct{}
}

// Options of a follower. Resource, Store and Kubeconfig are required.
type Options struct {
	Resource Resource
	// Store is the [Store] that the follower fills.
	Store target
	// Kubeconfig is the file that says how the API server is reached, or InCluster. It may come later.
	Kubeconfig string
	// Node is the name of the node whose objects are followed.
	Node string
	// Silence is for how long the API server may be silent until the objects are listed again. Default: 90 s,
	// since a bookmark comes each minute.
	Silence time.Duration
	// Log gets errors and warnings. Nil: nothing is logged.
	Log *slog.Logger
	// Changed, if not nil, is called when the result of [Follower.Trouble] has changed.
	Changed func()
	// MayRemove, if not nil, reports whether removals of objects of an optional resource may be confirmed.
	MayRemove func() bool
}

// Follower keeps a [Store] equal to the objects of a resource. Its methods may be called from any goroutine.
type Follower struct {
	Options

	mu     sync.Mutex       // guards the fields below
	client *rest.RESTClient // of this turn
	err    error            // of the last request; nil: the server answers
	since  time.Time        // when the requests began to fail
}

// NewFollower returns a follower that has not asked the API server yet.
func NewFollower(o Options) *Follower {
	if o.Silence == 0 {
		o.Silence = silence
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.MayRemove == nil {
		o.MayRemove = func() bool { return true }
	}
	return &Follower{Options: o, err: ErrNever}
}

// ErrNever reports that a follower has not asked the API server yet.
var ErrNever = errors.New("the API server was not asked yet")

var (
	errClosed = errors.New("the connection was closed without an answer")
)

// Run follows until ctx ends. Each turn lists all objects and then watches them, for as long as that goes on.
func (f *Follower) Run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(quiet{f.Log.Handler()}))
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
func (f *Follower) turn(ctx context.Context) error {
	c, err := connect(f.Kubeconfig, f.Resource) // again in each turn: the file may have been replaced
	if err != nil {
		f.Note(err)
		return err
	}
	defer c.Client.CloseIdleConnections()
	f.mu.Lock()
	f.client = c
	f.mu.Unlock()
	ctx, stop := context.WithCancel(ctx)
	f.Store.hear()
	var guard sync.WaitGroup
	defer guard.Wait()
	defer stop()
	guard.Go(func() {
		for {
			rest := f.Silence - f.Store.silence()
			if rest <= 0 {
				level := slog.LevelWarn
				if f.Store.isEmpty() { // no bookmarks come for a resource that has never had an object
					level = slog.LevelDebug
				}
				f.Log.Log(ctx, level, "the API server was silent; its objects are listed again", "resource", f.Resource.Resource, "for", f.Silence)
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
	if f.Resource.Optional {
		crd, _, err := f.origin(ctx, c)
		if err != nil {
			f.Note(err)
			return err
		}
		f.Store.ComesFrom(crd)
		guard.Go(func() { f.confirm(ctx, c, stop) })
	}
	r := cache.NewReflectorWithOptions(listWatch{f, c}, f.Resource.Object, f.Store,
		cache.ReflectorOptions{Name: f.Resource.Resource + " of " + f.Node, TypeDescription: f.Resource.Kind})
	err = r.ListAndWatchWithContext(ctx)
	if err != nil && ctx.Err() == nil {
		f.Note(err)
	}
	return err
}

// refusal is the error of an API server that does not serve an optional resource, or denies it.
type refusal struct{ error }

// refusing returns a refusal if err is one.
func (f *Follower) refusing(err error) (refusal, bool) {
	var r refusal
	if errors.As(err, &r) {
		return r, true
	}
	return refusal{err}, f.Resource.Optional && (apierrors.IsNotFound(err) || apierrors.IsForbidden(err))
}

// Note remembers whether the server answers. A refusal is an answer.
func (f *Follower) Note(err error) {
	if r, ok := f.refusing(err); ok {
		f.Store.Refuse(r.error)
		err = nil
		defer f.Changed()
	}
	f.mu.Lock()
	was := f.err
	f.err = err
	if err != nil && (was == nil || errors.Is(was, ErrNever)) {
		f.since = time.Now()
	}
	f.mu.Unlock()
	if (was == nil) != (err == nil) || err != nil && was != nil && was.Error() != err.Error() {
		f.Changed()
	}
}

// Get reads one object with a request of its own.
func (f *Follower) Get(ctx context.Context, namespace, name string, into runtime.Object) error {
	f.mu.Lock()
	c := f.client
	f.mu.Unlock()
	if c == nil {
		return ErrNever
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return c.Get().Resource(f.Resource.Resource).Namespace(namespace).Name(name).Do(ctx).Into(into)
}

// Trouble returns why requests fail and since when, or "". asked is false before the first request.
func (f *Follower) Trouble() (why string, asked bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.err == nil:
		return "", true
	case errors.Is(f.err, ErrNever):
		return f.err.Error(), false
	}
	return fmt.Sprintf("requests to the API server fail since %s: %v", f.since.UTC().Format(time.RFC3339), f.err), true
}

// listWatch sends the requests of the reflector. A request that fails ends the turn: the retries of the reflector
// do not end with its context.
type listWatch struct {
	*Follower
	client *rest.RESTClient
}

func (l listWatch) options(o metav1.ListOptions) metav1.ListOptions {
	if l.Resource.NodeField != "" {
		o.FieldSelector = fields.OneTermEqualSelector(l.Resource.NodeField, l.Node).String()
	}
	if o.ResourceVersion == "0" { // anything that some API server still has in memory, however old
		o.ResourceVersion = ""
	}
	return o
}

// ListWithContext implements [cache.ListerWithContext].
func (l listWatch) ListWithContext(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	o = l.options(o)
	list := l.Resource.newList()
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := l.client.Get().Resource(l.Resource.Resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Into(list)
	if err != nil { // success is noted by the watch that follows
		l.Note(err)
	}
	return list, l.final(err)
}

// WatchWithContext implements [cache.WatcherWithContext].
func (l listWatch) WatchWithContext(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o = l.options(o)
	o.Watch = true
	// A request that fails is followed by a list, which shows whether the server is the same. The client does not
	// repeat it: the version may be ahead of a server that comes back with a backup.
	w, err := l.client.Get().Resource(l.Resource.Resource).VersionedParams(&o, metav1.ParameterCodec).MaxRetries(0).
		Timeout(time.Duration(*o.TimeoutSeconds) * time.Second).Watch(ctx)
	if err == nil && reflect.TypeOf(w) == reflect.TypeOf(watch.NewEmptyWatch()) {
		err = errClosed // the client makes an empty watch of a connection that was closed
	}
	if ctx.Err() == nil {
		l.Note(err)
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
func (f *Follower) final(err error) error {
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
