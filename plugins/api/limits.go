package api

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/access"
)

const (
	// maxUsual bounds the request of a call that is not in larger.
	maxUsual = 4 << 20
	// smallBody is how much of a body is not counted.
	smallBody = 64 << 10
	// maxBodies bounds what the bodies of all requests of a listener take at the same time,
	// and maxBodiesOf those of one caller who is not an admin.
	maxBodies, maxBodiesOf = 2 * maxRequest, maxRequest + maxFrame
	// maxLarge bounds the calls at the same time whose work grows with their request or with
	// the number of keys, and maxLargeOf those of one caller who is not an admin. More wait.
	maxLarge, maxLargeOf = 4, 2
)

// larger are the calls whose requests may be larger than maxUsual.
var larger = map[string]int64{
	"Plan": 8 << 20, uiPath + "parse": 16 << 20, // a viewer may make these
	"Delete": 16 << 20, "Put": maxRequest, "PutKV": maxRequest, "Apply": maxRequest,
}

// large are the calls whose work grows with their request or with the number of keys.
var large = map[string]bool{"Plan": true, "List": true, "Diff": true, "Adopt": true, "Graph": true, "Map": true,
	"Changes": true, "History": true, "Apply": true, "Put": true, "Delete": true, uiPath + "parse": true}

// limits bounds what the callers of a listener use at the same time.
type limits struct {
	mu     sync.Mutex // guards what follows
	bytes  int64
	of     map[string]*usage
	ending chan struct{} // closed and replaced when a large call has ended
	calls  int           // large ones
}

type usage struct {
	bytes int64
	calls int
	users int // requests that refer to it
}

func newLimits() *limits { return &limits{of: map[string]*usage{}, ending: make(chan struct{})} }

// limited has requests keep to the limits.
func (l *limits) limited(next http.Handler) http.Handler {
	answer := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := callerOf(r.Context())
		call := shortCall(r.URL.Path)
		b := &countedBody{ReadCloser: r.Body, l: l, caller: c, most: maxUsual, call: call}
		if most, ok := larger[call]; ok {
			if b.most = most; c.role > access.Viewer {
				b.most = maxRequest
			}
		}
		u := l.enter(c.who)
		defer func() { l.leave(c.who, u, b) }()
		if b.usage = u; r.Body != nil && r.Body != http.NoBody {
			r.Body = b
		}
		if large[call] {
			if err := l.begin(r, c, u); err != nil {
				_ = answer.Write(w, r, err)
				return
			}
			defer l.end(u)
		}
		next.ServeHTTP(w, r)
	})
}

// shortCall is the name of a call, or the path of a page.
func shortCall(path string) string {
	if strings.HasPrefix(path, uiPath) {
		return path
	}
	return path[strings.LastIndexByte(path, '/')+1:]
}

func (l *limits) enter(who string) *usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.of[who]
	if u == nil {
		u = &usage{}
		l.of[who] = u
	}
	u.users++
	return u
}

func (l *limits) leave(who string, u *usage, b *countedBody) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bytes -= b.counted
	u.bytes -= b.counted
	if u.users--; u.users == 0 {
		delete(l.of, who)
	}
}

// begin waits until a large call may begin.
func (l *limits) begin(r *http.Request, c caller, u *usage) error {
	for {
		l.mu.Lock()
		ok := c.role == access.Admin || l.calls < maxLarge && u.calls < maxLargeOf
		if ok {
			l.calls++
			u.calls++
		}
		ending := l.ending
		l.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-ending:
		case <-r.Context().Done():
			return connect.NewError(connect.CodeCanceled, r.Context().Err())
		}
	}
}

func (l *limits) end(u *usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls--
	u.calls--
	close(l.ending)
	l.ending = make(chan struct{})
}

// countedBody is a body that counts for the limits while its request lasts.
type countedBody struct {
	io.ReadCloser
	l       *limits
	caller  caller
	usage   *usage
	call    string
	most    int64
	size    int64
	counted int64 // of size
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.size += int64(n)
	if b.size > b.most+maxFrame {
		return 0, exhausted("the request of %s is larger than %d MiB; send fewer keys at a time", b.call, b.most>>20)
	}
	if b.size > smallBody {
		if e := b.count(b.size - b.counted); e != nil {
			return 0, e
		}
	}
	return n, err
}

func (b *countedBody) count(more int64) error {
	b.l.mu.Lock()
	defer b.l.mu.Unlock()
	switch {
	case b.l.bytes+more > maxBodies:
		return exhausted("all requests under way take more than %d MiB; try again", maxBodies>>20)
	case b.caller.role != access.Admin && b.usage.bytes+more > maxBodiesOf:
		return exhausted("the requests of %s under way take more than %d MiB; send fewer at a time", b.caller.name, maxBodiesOf>>20)
	}
	b.counted += more
	b.l.bytes += more
	b.usage.bytes += more
	return nil
}

func exhausted(format string, args ...any) error {
	return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf(format, args...))
}
