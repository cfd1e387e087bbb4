package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// programs are the plugins of others.
type programs interface {
	// run calls one with the variables added to the environment.
	run(path string, env []string, stdin []byte, stderr io.Writer) (stdout []byte, err error)
}

type realPrograms struct{}

func (realPrograms) run(path string, env []string, stdin []byte, stderr io.Writer) ([]byte, error) {
	var out bytes.Buffer
	c := exec.Command(path)
	c.Env, c.Stdin, c.Stdout, c.Stderr = append(os.Environ(), env...), bytes.NewReader(stdin), &out, stderr
	err := c.Run()
	return out.Bytes(), err
}

// errNoPlugin: CNI_PATH holds no such plugin.
var errNoPlugin = errors.New("no such plugin in CNI_PATH")

// find looks for a plugin as runtimes do.
func find(plugin, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, plugin)
		if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w, %q", errNoPlugin, path)
}

// ipam calls the plugin that gives the addresses of a network, in the environment and
// with the configuration of the call, but for the command. Its result is that of ADD. That
// it does not know the container is not passed on: a runtime would clean up nothing.
func (s system) ipam(command string, args spec.Args, plugin string, config []byte) (*spec.Result, *spec.Error) {
	failed := func(err error) *spec.Error {
		return &spec.Error{Code: spec.TryLater, Msg: fmt.Sprintf("the ipam plugin %s did not do %s", plugin, command), Details: err.Error()}
	}
	file, err := find(plugin, args.Path)
	if err != nil {
		return nil, failed(err)
	}
	env := []string{"CNI_COMMAND=" + command, "CNI_CONTAINERID=" + args.ContainerID, "CNI_NETNS=" + args.Netns,
		"CNI_IFNAME=" + args.IfName, "CNI_ARGS=" + args.Args, "CNI_PATH=" + args.Path}
	out, err := s.programs.run(file, env, config, s.stderr)
	if err != nil {
		var told spec.Error
		switch {
		case json.Unmarshal(out, &told) != nil || told.Code == 0:
			return nil, failed(fmt.Errorf("%w: %s", err, bytes.TrimSpace(out)))
		case told.Code != spec.NoContainer:
			return nil, &told
		case command == "DEL":
			return nil, nil // it has nothing of that container
		}
		return nil, failed(&told)
	}
	if command != "ADD" {
		return nil, nil
	}
	r, err := spec.ParseResult(out)
	if err != nil {
		return nil, failed(fmt.Errorf("its result: %w", err))
	}
	return &r, nil
}

// withIPAM does a call with the plugin that gives the addresses: first it for ADD, of
// which nothing is left if the rest fails; last it for everything else, so that an
// address is not given again before it is gone.
func (s system) withIPAM(args spec.Args, plugin string, config []byte, serve func(*spec.Result) (*spec.Result, *spec.Error)) (*spec.Result, *spec.Error) {
	if args.Command == "ADD" {
		if s.namespaces.has(args.Netns, args.IfName) { // or it would lose its address
			return nil, &spec.Error{Code: spec.Exists, Msg: "the interface is there already", Details: args.IfName}
		}
		given, wrong := s.ipam("ADD", args, plugin, config)
		var result *spec.Result
		if wrong == nil {
			result, wrong = serve(given)
		}
		if wrong != nil {
			if _, also := s.ipam("DEL", args, plugin, config); also != nil {
				fmt.Fprintln(s.stderr, "plumb-cni:", also)
			}
		}
		return result, wrong
	}
	_, wrong := serve(nil)
	if wrong != nil && args.Command != "GC" {
		return nil, wrong
	}
	_, also := s.ipam(args.Command, args, plugin, config)
	return nil, s.judge(args, plugin, wrong, also)
}

// judge is what comes of a call of which either part may have failed. A plugin that
// is not installed any more must not keep containers from being removed.
func (s system) judge(args spec.Args, plugin string, ours, theirs *spec.Error) *spec.Error {
	switch {
	case theirs == nil:
		return ours
	case ours != nil:
		return &spec.Error{Code: ours.Code, Msg: ours.Msg, Details: strings.TrimPrefix(fmt.Sprintf("%s; %s: %v", ours.Details, plugin, theirs), "; ")}
	case args.Command == "STATUS" && theirs.Code != spec.Degraded:
		return &spec.Error{Code: spec.Unavailable, Msg: theirs.Msg, Details: theirs.Details}
	case args.Command == "DEL":
		if _, err := find(plugin, args.Path); err != nil {
			fmt.Fprintln(s.stderr, "plumb-cni:", theirs)
			return nil
		}
	}
	return theirs
}
