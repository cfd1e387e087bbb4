// Package cri makes an engine that speaks CRI, the interface of Kubernetes, a
// runtime of the container tracker: CRI-O for one. For containerd there is a
// package of its own, which knows more.
//
// Sandboxes of pods and containers in them are containers alike; their ids are
// unique within the engine. CRI says what Kubernetes needs to know. Process ids
// and environments are in the verbose part of its answers, in the words of
// CRI-O and containerd, which agree on them.
package cri
