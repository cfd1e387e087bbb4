// Package private makes directories, locks and unix sockets that only root and
// the user of this process can use, and connects to sockets that only they serve.
//
// What this process did not make it does not change: a directory that is there
// keeps its mode, its owner and its content. It is used if it belongs to root or
// to us and nobody else can write to it or move it away, and refused otherwise.
//
//	agent, at its start    Check, Make: the run and the state directory
//	                       Take: the locks in them and the one of the label
//	api, cni, etcd         Listen: a socket born closed; Accept asks who connects
//	agentctl, plumb-cni    Dial: asks who listens before anything is said
//
// The modes of sockets and directories and the questions to the peer say the same
// twice, for the day when somebody opens one of them.
package private
