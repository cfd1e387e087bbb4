package main

import (
	"errors"
	"net"
	"net/url"

	"connectrpc.com/connect"
)

// isCall tells errors of calls to the agent from our own.
func isCall(err error) bool {
	var answer *connect.Error
	var op *net.OpError
	var page *url.Error
	return errors.As(err, &answer) || errors.As(err, &op) || errors.As(err, &page)
}
