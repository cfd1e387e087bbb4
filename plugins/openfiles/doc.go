// Package openfiles tells how many files this process has open, and how many it
// may: every namespace that is in use costs some of them.
package openfiles
