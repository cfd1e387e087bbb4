package spec

import (
	"fmt"
	"strings"
)

// Args are what the environment of a call says.
type Args struct {
	Command     string `json:"command"`
	ContainerID string `json:"container_id,omitempty"`
	Netns       string `json:"netns,omitempty"`
	IfName      string `json:"ifname,omitempty"`
	Args        string `json:"args,omitempty"`
	Path        string `json:"path,omitempty"`
}

// required are the variables of each command.
var required = map[string][]string{
	"ADD":     {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"},
	"DEL":     {"CNI_CONTAINERID", "CNI_IFNAME"},
	"CHECK":   {"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME"},
	"STATUS":  nil,
	"GC":      nil,
	"VERSION": nil,
}

// ReadArgs reads the environment and checks it. What a command does not need is
// not looked at: runtimes set more than they must.
func ReadArgs(getenv func(string) string) (Args, *Error) {
	a := Args{Command: getenv("CNI_COMMAND")}
	names, known := required[a.Command]
	switch {
	case a.Command == "":
		return a, &Error{Code: BadEnv, Msg: "required env variables missing", Details: "CNI_COMMAND"}
	case !known:
		return a, &Error{Code: BadEnv, Msg: "unknown CNI_COMMAND", Details: fmt.Sprintf("%q is none of ADD, DEL, CHECK, STATUS, GC, VERSION", a.Command)}
	case a.Command == "VERSION":
		return a, nil
	}
	var missing []string
	for _, n := range names {
		if getenv(n) == "" {
			missing = append(missing, n)
		}
	}
	if len(missing) > 0 {
		return a, &Error{Code: BadEnv, Msg: "required env variables missing", Details: strings.Join(missing, ", ")}
	}
	a.Path = getenv("CNI_PATH")
	if len(names) == 0 {
		return a, nil
	}
	a.ContainerID, a.Netns, a.IfName, a.Args = getenv("CNI_CONTAINERID"), getenv("CNI_NETNS"), getenv("CNI_IFNAME"), getenv("CNI_ARGS")
	if !isName(a.ContainerID) {
		return a, &Error{Code: BadEnv, Msg: "invalid CNI_CONTAINERID", Details: fmt.Sprintf("%q does not match [A-Za-z0-9][A-Za-z0-9_.-]*", a.ContainerID)}
	}
	if wrong := linkNameError(a.IfName); wrong != "" {
		return a, &Error{Code: BadEnv, Msg: "invalid CNI_IFNAME", Details: fmt.Sprintf("%q %s", a.IfName, wrong)}
	}
	return a, nil
}

// isName is the specification's rule for containers and networks.
func isName(s string) bool {
	for i, r := range s {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !letter && (i == 0 || r != '_' && r != '.' && r != '-') {
			return false
		}
	}
	return s != ""
}

func linkNameError(s string) string {
	switch {
	case len(s) > 15:
		return "is longer than 15 bytes"
	case s == "." || s == "..":
		return "is no name"
	case strings.ContainsAny(s, "/: \t\n\v\f\r"):
		return "holds a slash, a colon or a space"
	case strings.Contains(s, "%"):
		return "holds a percent sign, with which the kernel makes a name of its own"
	}
	return ""
}
