package switchd

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"sync"
	"time"
)

// redial is how often a dataplane that is down is tried.
const redial = 10 * time.Millisecond

// Client speaks to the dataplane while [Client.Run] runs. All methods may be
// called from any goroutine; requests end with their context or with ErrDown
// when the connection breaks.
type Client struct {
	path string

	mu      sync.Mutex
	conn    *conn // nil while there is none
	serial  uint64
	waiting map[uint64]chan reply
	ears    map[*ear]bool
}

type conn struct {
	net.Conn
	out  *json.Encoder
	lost chan struct{}
}

// ear is somebody who listens for events.
type ear struct {
	events []Event
	wake   chan struct{}
}

// NewClient makes a client for the socket.
func NewClient(path string) *Client {
	return &Client{path: path, waiting: map[uint64]chan reply{}, ears: map[*ear]bool{}}
}

// Run keeps the connection until ctx ends.
func (c *Client) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if n, err := net.Dial("unix", c.path); err == nil {
			c.read(ctx, &conn{Conn: n, out: json.NewEncoder(n), lost: make(chan struct{})})
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(redial):
		}
	}
	return ctx.Err()
}

// read is the life of one connection.
func (c *Client) read(ctx context.Context, n *conn) {
	defer context.AfterFunc(ctx, func() { n.Close() })()
	c.connected(n)
	for in := json.NewDecoder(n); ; {
		var r reply
		if in.Decode(&r) != nil {
			break
		}
		c.mu.Lock()
		switch waiting := c.waiting[r.ID]; {
		case r.Event != nil:
			c.tell(*r.Event)
		case waiting != nil:
			waiting <- r
			delete(c.waiting, r.ID)
		}
		c.mu.Unlock()
	}
	n.Close()
	close(n.lost)
	c.connected(nil)
}

func (c *Client) connected(n *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = n
	c.tell(Event{All: true})
}

// tell passes an event on; c.mu is held.
func (c *Client) tell(e Event) {
	for ear := range c.ears {
		ear.events = append(ear.events, e)
		select {
		case ear.wake <- struct{}{}:
		default:
		}
	}
}

// Watch calls f for all events until ctx ends, first with All.
func (c *Client) Watch(ctx context.Context, f func(Event)) error {
	e := &ear{wake: make(chan struct{}, 1), events: []Event{{All: true}}}
	e.wake <- struct{}{}
	c.mu.Lock()
	c.ears[e] = true
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ears, e)
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-e.wake:
		}
		c.mu.Lock()
		events := e.events
		e.events = nil
		c.mu.Unlock()
		for _, event := range events {
			f(event)
		}
	}
}

// send makes a request and waits for the reply.
func (c *Client) send(ctx context.Context, r request) (reply, error) {
	if err := ctx.Err(); err != nil {
		return reply{}, err
	}
	answer := make(chan reply, 1)
	c.mu.Lock()
	n := c.conn
	if n == nil {
		c.mu.Unlock()
		return reply{}, ErrDown
	}
	c.serial++
	r.ID = c.serial
	c.waiting[r.ID] = answer
	err := n.out.Encode(r)
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.waiting, r.ID)
	}()
	if err != nil {
		return reply{}, ErrDown
	}
	select {
	case out := <-answer:
		return out, nil
	case <-n.lost:
		return reply{}, ErrDown
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// State reads everything.
func (c *Client) State(ctx context.Context) (State, error) {
	out, err := c.send(ctx, request{Op: "state"})
	if err != nil {
		return State{}, err
	}
	if out.State == nil {
		return State{}, errors.New("the dataplane sent no state")
	}
	return *out.State, nil
}

// AddPorts makes ports and returns them with their indexes, each with an error
// of its own. Of what exists it returns what is there.
func (c *Client) AddPorts(ctx context.Context, ports []Port) ([]Port, []error) {
	out, err := c.send(ctx, request{Op: "add ports", Ports: ports})
	errs := results(out, err, len(ports))
	if len(out.Ports) != len(ports) {
		out.Ports = make([]Port, len(ports))
	}
	return out.Ports, errs
}

// DeletePorts removes ports by their indexes.
func (c *Client) DeletePorts(ctx context.Context, indexes ...uint32) []error {
	ports := make([]Port, len(indexes))
	for i, index := range indexes {
		ports[i].Index = index
	}
	out, err := c.send(ctx, request{Op: "delete ports", Ports: ports})
	return results(out, err, len(ports))
}

// SetBridge makes a bridge, or gives it other ports.
func (c *Client) SetBridge(ctx context.Context, b Bridge) error {
	out, err := c.send(ctx, request{Op: "set bridges", Bridges: []Bridge{b}})
	return results(out, err, 1)[0]
}

// DeleteBridge removes a bridge.
func (c *Client) DeleteBridge(ctx context.Context, name string) error {
	out, err := c.send(ctx, request{Op: "delete bridges", Bridges: []Bridge{{Name: name}}})
	return results(out, err, 1)[0]
}

// AddRoutes makes routes, each with an error of its own.
func (c *Client) AddRoutes(ctx context.Context, routes []Route) []error {
	out, err := c.send(ctx, request{Op: "add routes", Routes: routes})
	return results(out, err, len(routes))
}

// DeleteRoutes removes routes by their networks.
func (c *Client) DeleteRoutes(ctx context.Context, routes []Route) []error {
	out, err := c.send(ctx, request{Op: "delete routes", Routes: routes})
	return results(out, err, len(routes))
}

// results are the errors of n things, all the same if the request failed.
func results(out reply, err error, n int) []error {
	if err == nil && len(out.Errors) != n {
		err = errors.New("the dataplane did not answer to all that was asked")
	}
	errs := make([]error, n)
	for i := range errs {
		if errs[i] = err; err == nil {
			errs[i] = toError(out.Errors[i])
		}
	}
	return errs
}
