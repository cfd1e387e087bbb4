// Package switchd is a simulated dataplane. It behaves as real ones do, and
// forwards nothing.
//
// [Server] is the dataplane: ports on tap devices, bridges of ports, routes. It
// numbers what is made, another way in each of its lives; when it ends, all is
// gone. Ports gain and lose their link without anybody asking. [Client] speaks
// to it over a unix socket, one JSON object per line: requests with a number,
// replies with the same, and events in between.
package switchd
