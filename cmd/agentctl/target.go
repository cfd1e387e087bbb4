package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/plumb-net/plumb/plugins/api/client"
	"github.com/plumb-net/plumb/plugins/api/client/contexts"
)

// defaultSocket is where an agent of this host listens if nothing else is said.
func (c *cli) defaultSocket() string {
	if dir := c.getenv("PLUMB_RUN_DIR"); dir != "" {
		return filepath.Join(dir, "agent.sock")
	}
	return client.DefaultSocket
}

// checkTarget refuses two agents in one command line.
func (c *cli) checkTarget(cmd *cobra.Command) error {
	if c.socket != "" && c.context != "" {
		return usage(cmd, "--socket and --context name two agents")
	}
	return nil
}

// target is which agent is meant, and the name of its context if it has one. A flag goes
// before the environment, and that before the current context.
func (c *cli) target() (contexts.Context, string, error) {
	socket, name := c.socket, c.context
	if socket == "" && name == "" {
		socket, name = c.getenv("PLUMB_SOCKET"), c.getenv("PLUMB_CONTEXT")
		if socket != "" && name != "" {
			return contexts.Context{}, "", errors.New("PLUMB_SOCKET and PLUMB_CONTEXT name two agents; unset one of them, or use --socket or --context")
		}
	}
	if socket != "" {
		return contexts.Context{Socket: socket}, "", nil
	}
	all, err := c.contexts()
	if err != nil {
		return contexts.Context{}, "", err
	}
	if name = cmp.Or(name, all.Current); name == "" {
		return contexts.Context{Socket: c.defaultSocket()}, "", nil
	}
	t, err := all.Find(name)
	return t, name, err
}

// contexts are those of the user.
func (c *cli) contexts() (*contexts.File, error) {
	path := c.contextsPath()
	if path == "" {
		return &contexts.File{}, nil
	}
	return contexts.Load(path)
}

// contextsPath is where they are; "" if the user has no directory of his own.
func (c *cli) contextsPath() string {
	dir := c.getenv("XDG_CONFIG_HOME")
	if home := c.getenv("HOME"); dir == "" && home != "" {
		dir = filepath.Join(home, ".config")
	}
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, "plumb", "contexts.yaml")
}

// changeContexts reads the contexts, changes them, and writes them.
func (c *cli) changeContexts(change func(*contexts.File) error) error {
	path := c.contextsPath()
	if path == "" {
		return fmt.Errorf("there is no place for contexts; set HOME or XDG_CONFIG_HOME")
	}
	all, err := contexts.Load(path)
	if err == nil {
		err = change(all)
	}
	if err == nil {
		err = all.Save(path)
	}
	return err
}
