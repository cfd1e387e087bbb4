package etcd

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestSay: that an external store cannot be reached is said in our words, with its
// address and without the password in it.
func TestSay(t *testing.T) {
	c := Config{Endpoints: []string{"http://root:hunter2@10.0.0.1:2379", "http://10.0.0.2:2379"}}
	const at = "http://root:***@10.0.0.1:2379, http://10.0.0.2:2379"
	dialing := func(text string) error {
		return status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp `+text+`"`)
	}
	for _, x := range []struct {
		err  error
		want string
	}{
		{dialing("10.0.0.1:2379: connect: connection refused"), "no etcd answers at " + at + ": nothing listens there (connection refused)"},
		{dialing("10.0.0.1:2379: i/o timeout"), "no etcd answers at " + at + ": no answer in time"},
		{dialing("lookup etcd on 10.0.0.53:53: no such host"), "no etcd answers at " + at + ": nobody knows the name (no such host)"},
		{context.DeadlineExceeded, "no etcd answers at " + at + ": no answer in time"},
		{errNoStore, "not connected yet to " + at},
		{status.Error(codes.Unimplemented, "unexpected HTTP status code received from server: 404 (Not Found)"),
			"what answers at " + at + " is no etcd, or wants TLS: unexpected HTTP status code received from server: 404 (Not Found)"},
		{errors.New("etcdserver: permission denied"), "permission denied"},
	} {
		if got := c.say(x.err); got != x.want {
			t.Errorf("%v\n got %s\nwant %s", x.err, got, x.want)
		}
	}
	if got := (Config{}).say(errNoStore); got != "not connected yet" {
		t.Errorf("the embedded store: %s", got)
	}
}
