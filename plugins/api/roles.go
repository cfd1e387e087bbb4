package api

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/api/apiv1/apiv1connect"
)

// needs says which role each call and each page takes; what is not here is served to
// nobody over the network. Who asks at the socket is root, and admin.
//
//	viewer    sees what is, why, and who did it; what a kind calls secret is masked
//	operator  changes intent, as far as the policy lets a writer of etcd reach, holds and
//	          repairs; and reads the log, in which anything may stand
//	admin     does what only root could otherwise: reads and writes the store as it is,
//	          believes that what is lost is to go, has commands run
//
// Some calls take more for some of what can be asked; see need.
var needs = map[access.Role][]string{
	access.Viewer: {
		"Get", "List", "Watch", "Wait", "Why", "Diff", "Adopt", "Graph", "Map", "History", "Changes", "Blame", "Plan",
		"Kinds", "Microservices", "Containers", "Resources", "CNI", "Events", "WatchEvents", "AgentStatus", "Version", "Logs",
		"/livez", "/readyz", "/metrics", uiPath,
	},
	access.Operator: {
		"Apply", "Put", "Delete", "Confirm", "Abort", "Extend", "Undo",
		"Resync", "Pause", "Resume", "Freeze", "Unfreeze",
		"/log",
	},
	access.Admin: {
		"Release", "AdoptAttachment", "ForgetAttachment", "SetLog",
		"GetKV", "ListKV", "PutKV", "DeleteKV",
	},
}

// uiPath is where the page for browsers is, with all that is below.
const uiPath = "/ui/"

// called is the name by which needed has a path.
func called(path string) string {
	if strings.HasPrefix(path, uiPath) {
		return uiPath
	}
	return path
}

// Needs returns the names of calls and the paths of pages that take the role, sorted.
func Needs(r access.Role) []string { return slices.Sorted(slices.Values(needs[r])) }

// needed is needs by path.
func needed() map[string]access.Role {
	all := map[string]access.Role{}
	for role, names := range maps.All(needs) {
		for _, name := range names {
			if !strings.HasPrefix(name, "/") {
				name = "/" + apiv1connect.AgentName + "/" + name
			}
			all[name] = role
		}
	}
	return all
}

// need refuses who has less than the role: what is asked for, within a call that would do
// with less, takes it.
func need(ctx context.Context, role access.Role, what string) error {
	if c := callerOf(ctx); c.role < role {
		return denied(c, what, role)
	}
	return nil
}

func denied(c caller, what string, role access.Role) error {
	return connect.NewError(connect.CodePermissionDenied, fmt.Errorf("%s is %s; %s takes %s", c.name, c.role, what, role))
}
