// Package mirror keeps the objects of a resource of a Kubernetes API server in memory.
//
//	API server ──list, watch──► Follower ──► Store ──changed subjects──► source of intent
//
//	client.go   clients of the API server, and the resources that they read
//	follow.go   lists and watches, and notices a server that is silent
//	store.go    the objects of one resource; the reflector of client-go fills it
//	confirm.go  confirms removals of custom resources, which the API server also removes with their CRD
//	request.go  requests of the user of a follower
//
// A store keeps its objects while the API server does not answer. While the server is older than before, or after it
// lost the CRD of the objects, it keeps them until an operator accepts that.
package mirror
