package models

import (
	"path"
	"strings"
)

// maxPod is the longest name of a pod, in bytes: a namespace of 63, a name of 253 and a UID. Kubernetes bounds
// the first two (RFC 1123); its UIDs have 36.
const maxPod = 63 + 1 + 253 + 1 + 64

// maxPath is the kernel's bound for a path, in bytes.
const maxPath = 4095

// check is called for a namespace that is named in a value.
func (x *Namespace) check(at string, f *findings) {
	if _, file := x.GetIn().(*Namespace_Path); x.GetInode() != 0 && !file {
		f.add(join(at, "inode"), "goes with path only")
	}
	switch in := x.GetIn().(type) {
	case nil:
		f.add(at, "names none of microservice, container, netns, pid, path, pod; leave it out for the agent's own namespace")
	case *Namespace_Microservice:
		checkText(in.Microservice, join(at, "microservice"), "the service label", MaxName, f)
	case *Namespace_Container:
		checkText(in.Container, join(at, "container"), "the full id or exact name", MaxName, f)
	case *Namespace_Pod:
		checkText(in.Pod, join(at, "pod"), "<namespace>/<name> or <namespace>/<name>/<uid>", maxPod, f)
	case *Namespace_Netns:
		if in.Netns == "" {
			f.add(join(at, "netns"), "must not be empty: the name in /run/netns")
		} else if err := CheckName(in.Netns); err != nil {
			f.add(join(at, "netns"), "%v%s", err, pathHint(in.Netns))
		}
	case *Namespace_Path:
		switch p := in.Path; {
		case !path.IsAbs(p):
			f.add(join(at, "path"), "must be absolute, such as /run/netns/blue, not %q", p)
		case len(p) > maxPath || strings.ContainsRune(p, 0):
			f.add(join(at, "path"), "is no path: at most %d bytes, none of them zero", maxPath)
		case path.Clean(p) != p:
			f.add(join(at, "path"), "must be written in its short form, %s", path.Clean(p))
		}
	}
}

func pathHint(name string) string {
	if path.IsAbs(name) {
		return "; a file is named by path"
	}
	return ""
}

// checkText checks a name that others give: any text, but not too long.
func checkText(s, at, what string, most int, f *findings) {
	switch {
	case s == "":
		f.add(at, "must not be empty: %s", what)
	case len(s) > most:
		f.add(at, "has %d bytes; at most %d are allowed", len(s), most)
	}
}

// Text says where something lives: `microservice web`, `netns blue`.
func (x *Namespace) Text() string {
	switch in := x.GetIn().(type) {
	case *Namespace_Microservice:
		return "microservice " + in.Microservice
	case *Namespace_Container:
		return "container " + in.Container
	case *Namespace_Netns:
		return "netns " + in.Netns
	case *Namespace_Pid:
		return strings.Replace(NamespacePIDKey(in.Pid), "namespace/pid:", "pid ", 1)
	case *Namespace_Path:
		return "path " + in.Path
	case *Namespace_Pod:
		return "pod " + in.Pod
	}
	return "the agent's own namespace"
}

// Key names what must be there for the namespace to be usable. It is empty for
// the agent's own namespace, and for a container, which is found by its id or
// name among all container/ keys.
func (x *Namespace) Key() string {
	switch in := x.GetIn().(type) {
	case *Namespace_Microservice:
		return MicroserviceKey(in.Microservice)
	case *Namespace_Netns:
		return NetNSKey(in.Netns)
	case *Namespace_Pid:
		return NamespacePIDKey(in.Pid)
	case *Namespace_Path:
		return NamespacePathKey(in.Path)
	case *Namespace_Pod:
		return NamespacePodKey(in.Pod)
	}
	return ""
}
