// Package buildinfo tells which build of Plumb this program is.
package buildinfo

import "runtime/debug"

// What the Makefile has the linker write into programs that are to be installed.
var version, commit string

// Version is that of the release, "devel" if this is none.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// Commit is what it was built from, "" if that is not known.
func Commit() string {
	if commit != "" {
		return commit
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return ""
}

// String is both, for people.
func String() string {
	if c := Commit(); c != "" {
		return Version() + " (commit " + c + ")"
	}
	return Version()
}
