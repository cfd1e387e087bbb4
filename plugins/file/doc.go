// Package file is the intent source that reads a directory of YAML and JSON
// files.
//
//	directory ──look──► files ──settle──► believed ──parse──► values by key ──difference──► Txn
//	    ▲
//	    └── a hint of inotify, or the slow tick
//
// A hint only says that it is time to look; the look reads everything, so
// hints may be lost or doubled. What a look finds is believed when the next
// one finds the same: editors write in steps, and a file that is half written
// or for a moment not there must tear nothing down. For the same reason a file
// that cannot be read or parsed keeps the values it last had, and as long as
// there is such a file at the start, the source does not say that its word is
// complete.
package file
