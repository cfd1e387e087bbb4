package client

import (
	"io"
	"net/http"
	"sync/atomic"
)

// counted is a transport that counts the bytes of answers.
type counted struct {
	http.RoundTripper
	received atomic.Int64
}

// Received is how many bytes have come of all answers so far. It may be asked at any time.
func (c *Client) Received() (bytes int64) { return c.counted.received.Load() }

// RoundTrip implements http.RoundTripper.
func (c *counted) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := c.RoundTripper.RoundTrip(r)
	if err == nil {
		out.Body = countedBody{out.Body, &c.received}
	}
	return out, err
}

// CloseIdleConnections is for http.Client.
func (c *counted) CloseIdleConnections() {
	if t, ok := c.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

type countedBody struct {
	io.ReadCloser
	received *atomic.Int64
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.received.Add(int64(n))
	return n, err
}
