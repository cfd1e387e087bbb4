// Package ledger keeps kernel.Ledger in a file: the durable list of what we
// made, which decides after a crash what may be deleted.
//
// The file is a log of lines. A line is a checksum (see package linefile) and a
// change:
//
//	9a3c51f0 {"ledger":2}
//	0b77d2e4 {"add":{"id":"interface/web","ns":4026531840,"index":7}}
//	5fe01a9c {"remove":"interface/web"}
//	41d0b7c2 {"end":112}
//
// The last line says how long the file is before it. What is written takes its
// place, with a last line of its own. So a file that was cut, wherever that was, is known
// from one that is whole. The last line goes last, when all that is behind it is written: who
// is killed within a write leaves a file that is whole and has something behind its last
// line, which nobody was told of yet and which does not count.
//
// Whoever adds first leads: it takes all lines that wait, writes them and
// calls fdatasync once, for itself and for all who came while the one before
// was writing. When more lines are void than hold, the leader writes the whole
// ledger anew beside the old file and renames it; the same is the remedy after
// a failed write, since nobody knows what of it reached the disk.
//
// A file that is whole is gone on with after a restart. Any other starts with the same
// remedy. A file without its first or last line, an empty one, and a line that cannot
// be read are damage: the other lines count, a copy of the file is kept aside before it
// is written anew, and the caller is told, since nobody knows what the missing lines
// said. See [Found].
//
// An older copy of the file is whole as well. A [Witness] outside of its directory tells it from
// the file that was written last.
package ledger
