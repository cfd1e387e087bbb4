package spec

import (
	"fmt"
	"slices"
)

// Versions are those that can be spoken, the oldest first.
var Versions = []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}

// Latest is the version of results as they are made.
const Latest = "1.1.0"

// Supported reports whether a version can be spoken.
func Supported(version string) bool { return slices.Contains(Versions, version) }

// since reports whether a version is at least another. Versions are sorted.
func since(version, first string) bool {
	return slices.Index(Versions, version) >= slices.Index(Versions, first)
}

// checkVersion refuses a version, or one that is older than the command.
func checkVersion(command, version string) *Error {
	if version == "" {
		version = "0.1.0" // as the specification reads a configuration without
	}
	first := map[string]string{"CHECK": "0.4.0", "STATUS": "1.1.0", "GC": "1.1.0"}[command]
	switch {
	case !Supported(version):
		return &Error{Code: BadVersion, Msg: fmt.Sprintf("cniVersion %s is not supported", version),
			Details: fmt.Sprintf("supported are %v", Versions)}
	case first != "" && !since(version, first):
		return &Error{Code: BadVersion, Msg: fmt.Sprintf("cniVersion %s has no %s", version, command),
			Details: fmt.Sprintf("it came with %s", first)}
	}
	return nil
}
