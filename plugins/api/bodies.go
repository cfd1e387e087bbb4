package api

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// bodyTime is for how long a request may take to come whole, and for how long an
// answer may wait for a reader. On a socket of this host both take no time at all.
const bodyTime = 30 * time.Second

// withDeadlines bounds how long who asks may hold a call up. The call itself may take
// as long as it likes, and so may the reader of a stream: what a stream has to tell is
// kept once, however far behind its reader is.
func withDeadlines(next http.Handler, limit time.Duration) http.Handler {
	streams := streaming()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		_ = control.SetWriteDeadline(time.Time{}) // of the call before on this connection
		if r.Body != nil && r.Body != http.NoBody {
			r.Body = http.MaxBytesReader(w, r.Body, maxRequest+maxFrame)
			if control.SetReadDeadline(time.Now().Add(limit)) == nil {
				r.Body = &timedBody{r.Body, control}
			}
		}
		if !streams[r.URL.Path] {
			w = &timedWriter{w, control, limit}
		}
		next.ServeHTTP(w, r)
	})
}

// maxFrame is what protocols put around a message.
const maxFrame = 1 << 10

// streaming are the paths of the calls whose answers are streams.
func streaming() map[string]bool {
	out := map[string]bool{}
	services := apiv1.File_agent_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			if m := methods.Get(j); m.IsStreamingServer() {
				path := string(m.FullName())
				dot := strings.LastIndexByte(path, '.')
				out["/"+path[:dot]+"/"+path[dot+1:]] = true
			}
		}
	}
	return out
}

// timedBody is a body that must have come by a deadline; the connection has none once
// it is read.
type timedBody struct {
	io.ReadCloser
	control *http.ResponseController
}

func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

// timedWriter begins the time of the reader with each write.
type timedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	limit   time.Duration
}

// Unwrap is for http.ResponseController.
func (w *timedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *timedWriter) Write(p []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.limit))
	return w.ResponseWriter.Write(p)
}

// Flush is what gRPC asks for.
func (w *timedWriter) Flush() {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.limit))
	_ = w.control.Flush()
}
