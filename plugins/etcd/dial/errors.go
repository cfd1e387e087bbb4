package dial

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/plumb-net/plumb/plugins/safetext"
)

// Down reports whether the store could not be asked, as opposed to having
// refused.
func Down(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return true
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return true
	}
	return false
}

// Stranger reports whether something answers that is no etcd, such as a web server or
// a proxy.
func Stranger(err error) bool {
	text := Plain(err)
	return strings.Contains(text, "unexpected HTTP status code") || strings.Contains(text, "unexpected content-type") ||
		strings.Contains(text, "error reading server preface")
}

// Say says an error of the store in our words: of an external one that does not answer
// where that is, and what it is like there.
func (c Config) Say(err error) string {
	text := Plain(err)
	switch {
	case errors.Is(err, context.Canceled):
		return text
	case Stranger(err):
		return "what answers at " + c.Where() + " is no etcd, or wants TLS: " + text
	case !Down(err):
		return text
	}
	for sign, means := range map[string]string{
		"connection refused":     "nothing listens there (connection refused)",
		"i/o timeout":            "no answer in time",
		"no such host":           "nobody knows the name (no such host)",
		"no route to host":       "there is no way there (no route to host)",
		"network is unreachable": "there is no way there (network is unreachable)",
	} {
		if strings.HasSuffix(text, sign) {
			text = means
			break
		}
	}
	return "no etcd answers at " + c.Where() + ": " + text
}

// Where names the endpoints, without passwords.
func (c Config) Where() string {
	return safetext.URLs(strings.Join(withoutBareUsers(c.Endpoints), ", "))
}

// Plain says an error of gRPC the way people say it: the innermost text.
func Plain(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	if s, ok := status.FromError(err); ok {
		text = s.Message()
	}
	text = strings.TrimPrefix(text, "etcdserver: ")
	const wrapped = `connection error: desc = "`
	if i := strings.LastIndex(text, wrapped); i >= 0 {
		text = strings.TrimSuffix(text[i+len(wrapped):], `"`)
	}
	text = strings.TrimPrefix(text, "transport: ")
	text = strings.TrimPrefix(text, "Error while dialing: ")
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return text
}
