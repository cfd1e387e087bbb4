package selector

import (
	"strconv"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Text names the selector in keys and claims: "microservice:web", "" for the
// agent's own namespace. People read [models.Namespace.Text].
func Text(in *models.Namespace) string {
	if in.GetIn() == nil {
		return ""
	}
	kind, name, _ := strings.Cut(in.Text(), " ")
	return kind + ":" + name
}

// Parse takes a [Text] back to the selector.
func Parse(text string) (*models.Namespace, bool) {
	kind, name, _ := strings.Cut(text, ":")
	switch kind {
	case "":
		return nil, text == ""
	case "microservice":
		return &models.Namespace{In: &models.Namespace_Microservice{Microservice: name}}, name != ""
	case "container":
		return &models.Namespace{In: &models.Namespace_Container{Container: name}}, name != ""
	case "netns":
		return &models.Namespace{In: &models.Namespace_Netns{Netns: name}}, name != ""
	case "path":
		return &models.Namespace{In: &models.Namespace_Path{Path: name}}, name != ""
	case "pod":
		return &models.Namespace{In: &models.Namespace_Pod{Pod: name}}, name != ""
	case "pid":
		pid, err := strconv.ParseUint(name, 10, 32)
		return &models.Namespace{In: &models.Namespace_Pid{Pid: uint32(pid)}}, err == nil
	}
	return nil, false
}

// LinkKey is the key of a host link in the namespace.
func LinkKey(in *models.Namespace, hostName string) scheduler.Key {
	if text := Text(in); text != "" {
		hostName = text + ":" + hostName
	}
	return scheduler.Key(models.HostLinkKey(hostName))
}

// ParseLinkKey takes a [LinkKey] apart. Names of links hold no colon.
func ParseLinkKey(k scheduler.Key) (in *models.Namespace, hostName string, ok bool) {
	escaped, ok := strings.CutPrefix(string(k), models.KindHostLink+"/")
	if !ok {
		return nil, "", false
	}
	name, err := models.Unescape(escaped)
	if err != nil {
		return nil, "", false
	}
	i := strings.LastIndexByte(name, ':')
	if i < 0 {
		return nil, name, name != ""
	}
	in, ok = Parse(name[:i])
	return in, name[i+1:], ok && in != nil && name[i+1:] != ""
}
