// Package kernels runs the tests that speak to the kernel under the kernels of Debian, in
// virtual machines: the stable one and the one of its backports. They have all types of
// links, which the kernel of the machine that runs the tests may lack.
package kernels
