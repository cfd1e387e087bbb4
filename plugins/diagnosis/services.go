package diagnosis

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/models"
)

// silent names an engine that does not answer, "" if all do that there are.
func (d *diagnosis) silent() string {
	for _, e := range d.facts.Engines {
		switch e.State {
		case "down":
			text := e.Name + " has not answered"
			if !e.Since.IsZero() {
				text += " since " + clock(e.Since)
			}
			if why := strings.TrimPrefix(e.Reason, "does not answer: "); why != "" {
				text += " (" + why + ")"
			}
			return text
		case "starting":
			return e.Name + " has not told yet what it has"
		}
	}
	return ""
}

func cannotTell(what, engine string) Finding {
	return Finding{
		Text:   fmt.Sprintf("it cannot be told whether %s is there: %s; what is known may be old", what, engine),
		Advice: "see that the engine answers; agentctl status has how it stands",
	}
}

// noEngine reports whether there is no engine at all.
func (d *diagnosis) noEngine() bool {
	for _, e := range d.facts.Engines {
		if e.State != "off" {
			return false
		}
	}
	return true
}

// service: no container with the service label runs, as far as is known.
func (d *diagnosis) service() Finding {
	if e := d.silent(); e != "" {
		return cannotTell(string(d.root.Key), e)
	}
	waits := fmt.Sprintf("%s is not there: no container with the service label %s runs", d.root.Key, d.name)
	if d.noEngine() {
		return Finding{waits + ", and no container runtime is there", "start the container runtime, see agentctl status"}
	}
	for _, e := range d.facts.Ends {
		if e.Label == d.name {
			return Finding{waits + ": " + e.text(), d.restart(e)}
		}
	}
	for _, c := range d.containers() {
		if c.GetMicroservice() == d.name && c.GetLabelRefused() != "" {
			return Finding{fmt.Sprintf("%s: container %s may not carry it: %s", waits, c.GetName(), c.GetLabelRefused()),
				"correct the container, or the rules of the agent (label-carrier)"}
		} else if c.GetMicroservice() == d.name {
			return Finding{fmt.Sprintf("%s: container %s has it and is %s", waits, c.GetName(), c.GetState()),
				fmt.Sprintf("start it, see agentctl containers %s", c.GetName())}
		}
	}
	if near := d.similar(present); near != "" {
		return Finding{waits, fmt.Sprintf("did you mean %s, which runs? Else start a container with the service label %s, see agentctl microservices", near, d.name)}
	}
	return Finding{waits, fmt.Sprintf("start a container with the service label %s, see agentctl microservices", d.name)}
}

// container: no container with the id or name runs.
func (d *diagnosis) container() Finding {
	who, _ := d.find(d.root.For)
	name := ""
	if placed, ok := who.Desired.(interface{ GetNamespace() *models.Namespace }); ok {
		name = placed.GetNamespace().GetContainer()
	}
	if e := d.silent(); e != "" {
		return cannotTell("container "+name, e)
	}
	waits := fmt.Sprintf("no container with the id or name %s runs", name)
	if d.noEngine() {
		return Finding{waits + ", and no container runtime is there", "start the container runtime, see agentctl status"}
	}
	for _, e := range d.facts.Ends {
		if e.Name == name {
			return Finding{waits + ": " + e.text(), d.restart(e)}
		}
	}
	var names []string
	for _, c := range d.containers() {
		switch {
		case c.GetName() != name && c.GetContainerId() != name:
			names = append(names, c.GetName())
		case c.GetRefused() != "":
			return Finding{fmt.Sprintf("container %s runs, but nothing can live in it: %s", name, c.GetRefused()), d.room(c.GetRefused())}
		default:
			return Finding{fmt.Sprintf("%s: it is %s", waits, c.GetState()), fmt.Sprintf("start it, see agentctl containers %s", name)}
		}
	}
	if near := models.Nearest(name, names); near != "" {
		return Finding{waits, fmt.Sprintf("did you mean %s? Else start the container, see agentctl containers", near)}
	}
	return Finding{waits, "start the container, or correct namespace.container; see agentctl containers"}
}

func (d *diagnosis) containers() (all []*models.Container) {
	for _, s := range d.facts.Keys {
		if c, ok := s.Actual.(*models.Container); ok {
			all = append(all, c)
		}
	}
	return all
}

// text says how a container ended.
func (e End) text() string {
	how := fmt.Sprintf("ended with exit code %d", e.Code)
	switch {
	case e.OutOfMemory:
		how = "was killed for want of memory"
	case e.Signal != 0:
		how = fmt.Sprintf("was killed by signal %d", e.Signal)
	case e.Code < 0:
		how = "ended, nobody knows how,"
	}
	if e.Code >= 0 && (e.Signal != 0 || e.OutOfMemory) {
		how += fmt.Sprintf(" (exit code %d)", e.Code)
	}
	text := fmt.Sprintf("container %s %s at %s", e.Name, how, clock(e.At))
	if e.Reason != "" {
		text += ", " + e.Reason
	}
	return text
}

func (d *diagnosis) restart(e End) string {
	if e.OutOfMemory {
		return fmt.Sprintf("give it more memory and start it again, see agentctl events --container %s", e.Name)
	}
	return fmt.Sprintf("start it again, see agentctl events --container %s", e.Name)
}

// refused: a container with the label runs, and nothing can live in it.
func (d *diagnosis) refused(m *models.Microservice) Finding {
	if m.GetRefused() == "" {
		return advice("see agentctl microservices")
	}
	return Finding{
		Text:   fmt.Sprintf("%s runs, but nothing can live in it: %s", d.root.Key, m.GetRefused()),
		Advice: d.room(m.GetRefused()),
	}
}

// room says how a container gets a namespace of its own.
func (d *diagnosis) room(refused string) string {
	switch {
	case strings.Contains(refused, "host"):
		return "run the container with a network namespace of its own (docker run --network none or bridge)"
	case strings.Contains(refused, "shared"):
		return "name the service that has the namespace, or give each container its own"
	}
	return "see agentctl containers"
}
