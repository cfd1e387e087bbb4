// Package kubernetes is the source of intent that reads the pods of a node, and the PodIntents for them, from the API
// server of Kubernetes.
//
//	API server ──mirror──► stores ──changed pods──► values of a pod ──changes──► Txn
//	                         ▲                           ▲
//	         copy on disk ───┘       plugins/cni ────────┘ which pods are attached
//
//	mirror        the objects of one resource of the API server (a package)
//	pod.go        the fields of a pod that are kept
//	podintent.go  the fields of a PodIntent that are kept
//	values.go     the values of one text of a pod: a pure function
//	wants.go      the values that a pod wants, from its annotation and its PodIntents: a pure function
//	submit.go     submits the changes of values
//	source.go     runs the parts, and reports what an ADD waits for
//	health.go     the health of the source
//	shown.go      the pods as the reporter sees them
//	status.go     the statuses of pods and of PodIntents
//	report.go     compares the statuses with those that the API server has
//	write.go      writes statuses and events
//	saved.go      the copy of the stores, for a start without the API server
//
// The API server is no dependency of what is attached: while it cannot be reached all values stay, and a pod
// that is deleted there keeps its values until its runtime detaches it.
package kubernetes
