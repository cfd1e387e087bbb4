// Package vm runs programs in a virtual machine under a kernel of Debian's, for what the
// kernel that the tests run on does not have.
//
// The machine has no disk: its files are an archive in memory, made of what [Machine]
// names, with the modules of the kernel, which loads them itself as on any Debian. It is
// emulated, because not every host lends its processor; a boot takes about four seconds.
package vm
