package access

import (
	"fmt"
	"strings"
)

// Role is what somebody may do. Each may do what those before it may.
type Role int

// The roles. Nobody is who has none.
const (
	Nobody Role = iota
	Viewer
	Operator
	Admin
)

// Roles are all that somebody can have, the weakest first.
var Roles = []Role{Viewer, Operator, Admin}

func (r Role) String() string {
	switch r {
	case Viewer:
		return "viewer"
	case Operator:
		return "operator"
	case Admin:
		return "admin"
	}
	return "nobody"
}

// ParseRole reads the name of a role.
func ParseRole(name string) (Role, error) {
	var names []string
	for _, r := range Roles {
		if name == r.String() {
			return r, nil
		}
		names = append(names, r.String())
	}
	return Nobody, fmt.Errorf("%q is no role; there are %s", name, strings.Join(names, ", "))
}
