// Package linefile keeps records in a directory, a line each, in two files of
// bounded size.
//
// A line is a checksum and what was given to write, which must hold no newline:
//
//	9a3c51f0 {"seq":7,"time":"2026-01-02T03:04:05Z"}
//
// The first line names the format and its version. When the file has grown to
// half of what is allowed it becomes name.1, in place of the one before, and a
// new one is begun.
//
// A line that a crash cut short, or that is damaged, is left out when the file
// is read: it costs nobody else. A file of another format or of a later version
// is put aside and left alone.
package linefile
