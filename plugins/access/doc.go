// Package access decides who may ask an agent over the network, and as what.
//
// Who asks shows a token or the certificate of a client, and is somebody with a role. Both
// are judged at every call by the files as they are then, so that what is taken out of a
// file ends at once, also on connections that are open.
//
//	gate.go         Gate: the files, the configuration of TLS, who a request is from
//	role.go         viewer, operator, admin
//	tokens.go       the file of tokens: digests of tokens, never a token
//	certificate.go  the role that a certificate gives
//	few.go          so many connections of strangers, and no more
//
// What a role is needed for is said where the calls are, in plugins/api.
package access
