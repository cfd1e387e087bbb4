package kernel

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// Proxies are processes of ours that listen in one namespace and forward to another. They
// run on when the agent ends.
type Proxies interface {
	// StartProxy makes what listens and a process that serves it. record gets the process
	// before it serves anybody; without its consent, or if this process ends before, the
	// new one ends too. What is in use by others is a *TakenError, and changes nothing.
	StartProxy(ctx context.Context, p Proxy, record func(ProxyProcess) error) (ProxyProcess, error)
	// ReadProxy asks a process what it does. ErrNotExist: nothing is left of it.
	// ErrProxyEnded: its socket file is.
	ReadProxy(ctx context.Context, p ProxyProcess) (ProxyState, error)
	// SetProxy changes what a process does, and who may connect to its socket file.
	SetProxy(ctx context.Context, p ProxyProcess, r ProxyRules, mode uint32) error
	// StopProxy ends a process at once, with its connections, and removes its files. What
	// has gone already is no error.
	StopProxy(ctx context.Context, p ProxyProcess) error
	// MarkedProxies are the processes that bear the mark of some agent and belong to root.
	MarkedProxies() ([]ProxyProcess, error)
	// ProxyFile looks at the socket file of a process: its mode, or ErrNotExist when it is
	// not there any more or is another's.
	ProxyFile(p ProxyProcess) (mode uint32, err error)
	// WatchProxies calls f with the mark of every process that ends and was not told to,
	// until ctx ends.
	WatchProxies(ctx context.Context, f func(mark string))
	// Figures are what all processes that are known have done, by mark. One that does not
	// answer has none.
	Figures(ctx context.Context) map[string]ProxyFigures
}

// ErrProxyEnded: the process has gone and has left its socket file.
var ErrProxyEnded = fmt.Errorf("the process has ended, and its socket file is left")

// Proxy is what a process is started for.
type Proxy struct {
	// Mark tells whose it is: agent and key.
	Mark    string
	Listen  ProxyEnd
	Mode    uint32 // of the socket file
	Forward ProxyEnd
	Rules   ProxyRules
	// Since is when the ledger began to say that there is to be a socket file: one that
	// nobody serves, and that was made later, is ours. Zero: none is.
	Since time.Time
}

// ProxyEnd is one end of a proxy.
type ProxyEnd struct {
	NS NS `json:"ns,omitempty"` // 0 for a file
	// Path is how the namespace was found, "" for the agent's own.
	Path     string `json:"path,omitempty"`
	Protocol string `json:"protocol"`
	Address  string `json:"address"`
}

// ProxyRules are what can be changed while a process runs.
type ProxyRules struct {
	// Address is that of the other end.
	Address     string        `json:"address"`
	MaxSessions int           `json:"max_sessions"`
	Idle        time.Duration `json:"idle"`
	// Note is kept by the process for who asks.
	Note json.RawMessage `json:"note,omitempty"`
}

// ProxyProcess is a process, for the ledger.
type ProxyProcess struct {
	Mark string `json:"mark"`
	// PID and Start, in clock ticks since the boot, identify it; 0 while there is none.
	PID   int    `json:"pid,omitempty"`
	Start uint64 `json:"start,omitempty"`
	// Control is the socket by which it is asked.
	Control string `json:"control,omitempty"`
	// File is the socket file at which it listens.
	File SocketFile `json:"file,omitzero"`
}

// SocketFile is a socket file that is ours.
type SocketFile struct {
	Path  string `json:"path,omitempty"`
	Dev   uint64 `json:"dev,omitempty"`
	Inode uint64 `json:"inode,omitempty"`
	// Since is as in [Proxy], while Inode is not known yet.
	Since time.Time `json:"since,omitzero"`
}

// ProxyState is what a process says of itself.
type ProxyState struct {
	Rules   ProxyRules   `json:"rules"`
	Figures ProxyFigures `json:"figures"`
}

// ProxyFigures count what a process has done.
type ProxyFigures struct {
	// Active are the connections, or the clients of udp, of now.
	Active int64 `json:"active"`
	// Accepted are those that came in, Refused those of them that the other end did not
	// take, Evicted the clients of udp that gave way to others, Failed what could not be
	// accepted.
	Accepted uint64 `json:"accepted"`
	Refused  uint64 `json:"refused"`
	Evicted  uint64 `json:"evicted"`
	Failed   uint64 `json:"failed"`
	// LastError is why the last client was refused or could not be accepted.
	LastError string `json:"last_error,omitempty"`
}

// TakenError says that somebody listens already where a proxy should.
type TakenError struct {
	Address string
	// By is who it is, as far as that is known; Mark is set if it is a proxy.
	By, Mark string
}

func (e *TakenError) Error() string { return fmt.Sprintf("%s is in use by %s", e.Address, e.By) }

// Is reports it as ErrExist.
func (e *TakenError) Is(target error) bool { return target == ErrExist }

// WholeMark is the mark of a key where there is room for all of it.
func (o *Owner) WholeMark(key string) string { return markPrefix(o.label) + key }
