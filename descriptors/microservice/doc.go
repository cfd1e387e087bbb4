// Package microservice describes two observed kinds: containers, and the
// containers that serve a label. Plumb makes neither; they come and go by
// themselves, and what lives in their namespaces needs them.
package microservice
