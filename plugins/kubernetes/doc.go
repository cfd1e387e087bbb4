// Package kubernetes is the source of intent that reads the pods of a node from the API server of Kubernetes.
//
//	API server ──reflector──► store ──changed pods──► values of a pod ──changes──► Txn
//	                            ▲                          ▲
//	            copy on disk ───┘      plugins/cni ────────┘ which pods are attached
//
//	client.go   how the API server is reached
//	pod.go      what is kept of a pod
//	store.go    the pods of the node; the reflector of client-go fills it
//	follow.go   lists and watches, and notices a server that is silent
//	values.go   the values that a pod wants, from its annotation: a pure function
//	source.go   submits them, and answers what an ADD waits for
//	report.go   compares how the networks of pods are with what the API server shows of it
//	write.go    writes statuses and events
//	saved.go    the copy of the store, for a start without the API server
//
// The API server is no dependency of what is attached: while it cannot be reached all values stay, and a pod
// that is deleted there keeps its values until its runtime detaches it.
package kubernetes
