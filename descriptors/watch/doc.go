// Package watch notices what moves in the kernel, for the Watch of a kind: by the
// kernel's events where there are some ([Events]), by asking now and then where there
// are none ([Poll]).
package watch
