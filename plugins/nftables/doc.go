// Package nftables implements the port to nftables by Debian's program nft: rules
// are written in its language, and what it says of them is what people know.
//
//	script   a table as a script of nft, and which line is which rule
//	listing  what nft lists, read back
//	nft      the program, run in a namespace
//	gen      the generation of a namespace's tables, asked of the kernel itself
package nftables
