package switchd

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
)

// Server is the dataplane. Its methods may be called from any goroutine; those
// that are no requests of a client are what happens to it from outside.
type Server struct {
	path string

	mu       sync.Mutex
	boot     int
	next     uint32 // index
	ports    map[uint32]Port
	bridges  map[string]Bridge
	routes   map[string]Route
	changes  []Change // since the last call of Changes
	listener net.Listener
	conns    map[net.Conn]*json.Encoder
	answer   chan struct{} // closed unless it hangs
	serving  sync.WaitGroup
}

// NewServer makes a dataplane that will listen on a unix socket.
func NewServer(path string) *Server {
	s := &Server{path: path, answer: make(chan struct{})}
	close(s.answer)
	return s
}

// Path is the socket.
func (s *Server) Path() string { return s.path }

// Start begins a life, with nothing in it.
func (s *Server) Start() error {
	l, err := net.Listen("unix", s.path)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.boot++
	s.next = uint32(10 * s.boot)
	s.ports, s.bridges, s.routes = map[uint32]Port{}, map[string]Bridge{}, map[string]Route{}
	s.listener, s.conns = l, map[net.Conn]*json.Encoder{}
	s.serving.Go(func() { s.accept(l) })
	return nil
}

// Stop ends a life, and all that was made in it.
func (s *Server) Stop() {
	s.listener.Close()
	s.Disconnect()
	s.serving.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports, s.bridges, s.routes = nil, nil, nil
}

// Disconnect breaks all connections. What was made stays.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Hang makes it answer nobody until release is called.
func (s *Server) Hang() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hangs := make(chan struct{})
	s.answer = hangs
	return func() { close(hangs) }
}

// SetLink gives a port a link, or takes it, and tells the clients.
func (s *Server) SetLink(tag string, up bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.ports {
		if p.Tag == tag {
			p.Up = up
			s.ports[i] = p
			s.tell(Event{Tag: tag})
		}
	}
}

// Change is a request that changed something, and what.
type Change struct {
	Op     string
	Things []string
}

// Changes are those since the last call.
func (s *Server) Changes() []Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	changes := s.changes
	s.changes = nil
	return changes
}

// State is what there is.
func (s *Server) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.state()
}

func (s *Server) tell(e Event) {
	for _, out := range s.conns {
		_ = out.Encode(reply{Event: &e}) // who cannot hear it reads everything when it is back
	}
}

func (s *Server) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = json.NewEncoder(c)
		s.mu.Unlock()
		s.serving.Go(func() { s.serve(c) })
	}
}

func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}()
	for in := json.NewDecoder(c); ; {
		var r request
		if in.Decode(&r) != nil {
			return
		}
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		<-answer
		s.mu.Lock()
		out := s.do(r)
		out.ID = r.ID
		err := s.conns[c].Encode(out)
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// do carries out a request; s.mu is held.
func (s *Server) do(r request) (out reply) {
	var done []string
	note := func(err error, what string) {
		text := ""
		if err != nil {
			text = err.Error()
		} else {
			done = append(done, what)
		}
		out.Errors = append(out.Errors, text)
	}
	switch r.Op {
	case "state":
		out.State = s.state()
		return out
	case "add ports":
		for _, p := range r.Ports {
			p, err := s.addPort(p)
			out.Ports = append(out.Ports, p)
			note(err, fmt.Sprintf("%d on %s", p.Index, p.Tap))
		}
	case "delete ports":
		for _, p := range r.Ports {
			note(s.deletePort(p), fmt.Sprint(p.Index))
		}
	case "set bridges":
		for _, b := range r.Bridges {
			note(s.setBridge(b), fmt.Sprintf("%s of %v", b.Name, b.Ports))
		}
	case "delete bridges":
		for _, b := range r.Bridges {
			maps.DeleteFunc(s.routes, func(_ string, r Route) bool { return r.Bridge == b.Name })
			note(gone(s.bridges, b.Name), b.Name)
		}
	case "add routes":
		for _, x := range r.Routes {
			note(s.addRoute(x), fmt.Sprintf("%s by %d", x.Network, x.Port))
		}
	case "delete routes":
		for _, x := range r.Routes {
			note(gone(s.routes, x.Network), x.Network)
		}
	}
	if len(done) > 0 {
		s.changes = append(s.changes, Change{r.Op, done})
	}
	return out
}

func (s *Server) addPort(p Port) (Port, error) {
	for _, other := range s.ports {
		if other.Tap == p.Tap {
			return other, ErrExist
		}
	}
	s.next++
	p.Index, p.Up = s.next, true
	s.ports[p.Index] = p
	s.tell(Event{Tag: p.Tag}) // it has a link
	return p, nil
}

// deletePort leaves no traces: bridges lose the port, routes end.
func (s *Server) deletePort(p Port) error {
	for name, b := range s.bridges {
		b.Ports = slices.DeleteFunc(slices.Clone(b.Ports), func(i uint32) bool { return i == p.Index })
		s.bridges[name] = b
	}
	maps.DeleteFunc(s.routes, func(_ string, r Route) bool { return r.Port == p.Index })
	return gone(s.ports, p.Index)
}

func (s *Server) setBridge(b Bridge) error {
	for _, i := range b.Ports {
		if _, there := s.ports[i]; !there {
			return ErrNotExist
		}
	}
	s.bridges[b.Name] = b
	return nil
}

func (s *Server) addRoute(r Route) error {
	if !slices.Contains(s.bridges[r.Bridge].Ports, r.Port) {
		return ErrNotExist
	}
	if old, there := s.routes[r.Network]; there && old != r {
		return ErrExist
	}
	s.routes[r.Network] = r
	return nil
}

func gone[K comparable, V any](m map[K]V, k K) error {
	if _, there := m[k]; !there {
		return ErrNotExist
	}
	delete(m, k)
	return nil
}

func (s *Server) state() *State {
	st := &State{Boot: s.boot}
	for _, i := range slices.Sorted(maps.Keys(s.ports)) {
		st.Ports = append(st.Ports, s.ports[i])
	}
	for _, name := range slices.Sorted(maps.Keys(s.bridges)) {
		st.Bridges = append(st.Bridges, s.bridges[name])
	}
	for _, network := range slices.Sorted(maps.Keys(s.routes)) {
		st.Routes = append(st.Routes, s.routes[network])
	}
	return st
}
