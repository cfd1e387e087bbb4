// Package socket is the way to a container engine that speaks gRPC on a unix
// socket.
package socket
