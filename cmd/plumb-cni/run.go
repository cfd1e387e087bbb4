package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/safetext"
)

// system is everything outside of the program.
type system struct {
	getenv         func(string) string
	stdin          io.Reader
	stdout, stderr io.Writer
	dial           func(socket string, limit time.Duration) (net.Conn, error)
	namespaces     namespaces
	programs       programs
}

// namespaces is what must be known of the kernel.
type namespaces interface {
	// inode of the network namespace at the path, 0 if there is none; host tells
	// that it is the one that the program itself runs in.
	inode(path string) (inode uint64, host bool)
	// another is the type of the namespace at the path if it is not of the network.
	another(path string) string
	// unlink removes an interface of ours from a namespace, if it is there.
	unlink(path, ifname string) error
	// has reports whether an interface is in a namespace.
	has(path, ifname string) bool
	// forwards reports whether the host passes on packets of a family, 4 or 6.
	forwards(family int) bool
}

// run serves one call and returns the exit code.
func run(s system) int {
	version, out, err := s.call()
	if err != nil {
		out = failure{version, readable(err)}
	}
	if out != nil {
		text, broken := json.MarshalIndent(out, "", "  ")
		if broken == nil {
			_, broken = s.stdout.Write(append(text, '\n'))
		}
		if broken != nil {
			fmt.Fprintln(s.stderr, "plumb-cni:", broken)
			return 1
		}
	}
	if err != nil {
		return 1
	}
	return 0
}

// failure is an error as it is printed.
type failure struct {
	CNIVersion string `json:"cniVersion"`
	*spec.Error
}

// readable is an error that runtimes can print: it may quote what containers are
// called, and what they say.
func readable(e *spec.Error) *spec.Error {
	return &spec.Error{Code: e.Code, Msg: safetext.Line(e.Msg), Details: safetext.Line(e.Details)}
}

// call does what is asked and returns what is to be printed, if anything, in the
// version that was asked for.
func (s system) call() (version string, out any, _ *spec.Error) {
	args, wrong := spec.ReadArgs(s.getenv)
	if wrong != nil {
		return spec.Latest, nil, wrong
	}
	text, err := io.ReadAll(io.LimitReader(s.stdin, spec.MaxConfig+1))
	if err != nil {
		return spec.Latest, nil, &spec.Error{Code: spec.IOFailure, Msg: "the configuration cannot be read", Details: err.Error()}
	}
	if args.Command == "VERSION" {
		return s.version(text)
	}
	config, wrong := spec.ParseConfig(args.Command, text)
	version = spec.Latest
	if spec.Supported(config.CNIVersion) {
		version = config.CNIVersion
	}
	if wrong != nil {
		return version, nil, wrong
	}
	if args.Command == "ADD" {
		wrong = spec.CheckArgs(args.Args)
	}
	if wrong != nil {
		return version, nil, wrong
	}
	r, wrong := s.request(args, text)
	if wrong != nil {
		return version, nil, wrong
	}
	serve := func(given *spec.Result) (*spec.Result, *spec.Error) {
		r.IPAM = given
		return s.serve(r, config.Socket)
	}
	var result *spec.Result
	if plugin := config.Delegate(); plugin != "" {
		result, wrong = s.withIPAM(r.Args, plugin, text, serve)
	} else {
		result, wrong = serve(nil)
	}
	if wrong != nil || result == nil {
		return version, nil, wrong
	}
	if config.Mode == "routed" || config.Masquerade || config.HasPorts() {
		s.warn(*result)
	}
	return version, result.As(version), nil
}

// warn tells of a host that does not pass on the packets of a network whose containers
// are to reach others. It is not ours to change.
func (s system) warn(r spec.Result) {
	for family, name := range map[int]string{4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"} {
		if r.Has(family) && !s.namespaces.forwards(family) {
			fmt.Fprintf(s.stderr, "plumb-cni: %s is 0: the containers of this network are reached by the host and nobody beyond, nor reach them\n", name)
		}
	}
}

// version answers VERSION, for which no agent is needed.
func (s system) version(text []byte) (string, any, *spec.Error) {
	var asked struct {
		CNIVersion string `json:"cniVersion"`
	}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &asked); err != nil {
			return spec.Latest, nil, &spec.Error{Code: spec.BadJSON, Msg: "the configuration cannot be decoded", Details: err.Error()}
		}
	}
	if asked.CNIVersion == "" {
		asked.CNIVersion = spec.Latest
	}
	return spec.Latest, struct {
		CNIVersion string   `json:"cniVersion"`
		Supported  []string `json:"supportedVersions"`
	}{asked.CNIVersion, spec.Versions}, nil
}

// traces are the variables that follow a call through a system.
var traces = []string{"TRACEPARENT", "TRACESTATE", "BAGGAGE"}

// request is what the agent is told. A namespace that is the host's is refused
// before anything is done; for DEL it means that the container's is gone and
// somebody else has its path.
func (s system) request(args spec.Args, config []byte) (wire.Request, *spec.Error) {
	r := wire.Request{Args: args, Config: config, Trace: map[string]string{}}
	for _, name := range traces {
		if v := s.getenv(name); v != "" {
			r.Trace[name] = v
		}
	}
	if args.Netns == "" {
		return r, nil
	}
	inode, host := s.namespaces.inode(args.Netns)
	r.Inode = inode
	switch {
	case inode != 0 && !host:
	case args.Command == "DEL":
		r.Netns, r.Inode = "", 0
	case host:
		return r, &spec.Error{Code: spec.BadNamespace, Msg: "CNI_NETNS is the network namespace of the host", Details: args.Netns}
	}
	if inode != 0 || args.Command == "DEL" {
		return r, nil
	}
	details := args.Netns
	if kind := s.namespaces.another(args.Netns); kind != "" {
		details += " is a namespace of another type: " + kind
	}
	return r, &spec.Error{Code: spec.BadNamespace, Msg: "CNI_NETNS is no network namespace", Details: details}
}

// serve has the agent do it, or does without the agent what can be done.
func (s system) serve(r wire.Request, socket string) (*spec.Result, *spec.Error) {
	answer, err := s.ask(r, socket)
	for _, w := range answer.Warnings {
		fmt.Fprintln(s.stderr, "plumb-cni:", safetext.Line(w))
	}
	switch {
	case err != nil && r.Command == "DEL":
		return nil, s.leave(r, socket, err)
	case err != nil:
		return nil, unreachable(r.Command, err)
	case answer.Error != nil:
		return nil, answer.Error
	case r.Command != "ADD":
		return nil, nil
	case answer.Result == nil:
		return nil, &spec.Error{Code: spec.Internal, Msg: "the agent gave no result"}
	}
	return answer.Result, nil
}

// unreachable says that the agent did not answer.
func unreachable(command string, err error) *spec.Error {
	e := &spec.Error{Code: spec.TryLater, Msg: "plumb-agent does not answer", Details: err.Error()}
	if command == "STATUS" || command == "CHECK" {
		e.Code = spec.Unavailable
	}
	if errors.Is(err, wire.ErrNoCommon) {
		e.Msg = "plumb-agent and plumb-cni do not fit together"
	}
	return e
}
