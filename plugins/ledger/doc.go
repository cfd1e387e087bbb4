// Package ledger keeps kernel.Ledger in a file: the durable list of what we
// made, which decides after a crash what may be deleted.
//
// The file is a log of lines. A line is a checksum (see package linefile) and a
// change:
//
//	9a3c51f0 {"ledger":1}
//	0b77d2e4 {"add":{"id":"interface/web","ns":4026531840,"index":7}}
//	5fe01a9c {"remove":"interface/web"}
//
// Whoever adds first leads: it takes all lines that wait, writes them and
// calls fdatasync once, for itself and for all who came while the one before
// was writing. When more lines are void than hold, the leader writes the whole
// ledger anew beside the old file and renames it; the same is the remedy after
// a failed write, since nobody knows what of it reached the disk.
//
// Reading starts with the same remedy: a torn last line (a crash during a
// write that nobody was told had succeeded) is dropped; a bad line before the
// end is damage, which is reported and kept aside.
package ledger
