package apitest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/plugins/container"
	"github.com/plumb-net/plumb/plugins/resources"
	"github.com/plumb-net/plumb/scheduler"
)

// Script builds the agent line by line:
//
//	{"key":"interface/web","state":"configured",…}  a key, as get -o json has it
//	grade KEY GRADE [owner]          what sort of drift a fresh read finds at a key
//	becomes {"key":…}                what a key will be once it is wanted
//	was {"key":…}                    what a key was before
//	store KEY VALUE                  a key of the store, as somebody else writes it
//	other LABEL KEY                  a key of the store that another label has
//	down | up                        the store
//	edge FROM TO [why]               a need, satisfied if TO is configured or observed
//	derived FROM BASE                a derivation
//	record {"seq":…}                 a transaction of the history
//	health NAME STATE [reason]       a part of the agent
//	silent SOURCE                    a source has not synced
//	container {…}                    a container, as models has it
//	microservice LABEL {…}           a microservice
//	runtime NAME STATE [reason]      a container runtime
//	attachment {…}                   what is attached by CNI
//	waits TEXT                       what the attachment before waits for
//	forgotten {…}                    an attachment without a record
//	left {…}                         a DEL that waits for the agent
//	unknown TEXT                     why there may be more containers
//	event {…}                        an event, as container.Event has it, with a Detail;
//	                                 three of each type are kept
func (a *Agent) Script(text string) error {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if err := a.line(line); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
	}
	return nil
}

func (a *Agent) line(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	first, more, _ := strings.Cut(rest, " ")
	switch word {
	case "store":
		_, err := a.Store.Write(context.Background(), []models.Write{{Key: first, Value: []byte(more)}})
		return err
	case "other":
		a.Store.Other(first, more)
	case "down", "up":
		a.Store.Down(word == "down")
	case "edge":
		to, why, _ := strings.Cut(more, " ")
		st, _ := a.Engine.Get(context.Background(), scheduler.Key(to))
		a.Engine.Edge(scheduler.Edge{From: scheduler.Key(first), To: scheduler.Key(to), Why: why,
			Satisfied: st.State == scheduler.Configured || st.State == scheduler.Observed})
	case "derived":
		a.Engine.Edge(scheduler.Edge{From: scheduler.Key(first), To: scheduler.Key(more), Derived: true, Satisfied: true})
	case "health", "optional":
		state, why, _ := strings.Cut(more, " ")
		a.Parts = append(a.Parts, models.Health{Name: first, State: state, Reason: why, Since: Noon().Add(-5 * time.Minute), Optional: word == "optional"})
	case "silent":
		a.Engine.Source(scheduler.SourceState{Name: first})
	case "record":
		var r scheduler.Record
		err := json.Unmarshal([]byte(rest), &r)
		a.Engine.Record(r)
		return err
	case "grade":
		grade, owner, _ := strings.Cut(more, " ")
		return a.Engine.Grade(scheduler.Key(first), grade, owner)
	case "was":
		st, err := Status(rest)
		a.Engine.Was(st)
		return err
	case "becomes":
		st, err := Status(rest)
		a.Engine.Becomes(st)
		return err
	case "event":
		var e struct {
			container.Event
			Detail string
		}
		err := json.Unmarshal([]byte(rest), &e)
		e.Seen = e.At
		a.Events.AddDetail(e.Event, e.Detail)
		return err
	case "container", "microservice", "runtime", "unknown":
		return a.containerLine(word, rest, first, more)
	case "resources":
		d := resources.Detail{Latest: resources.Latest{Key: first, Container: a.Containers.All[first]}}
		if err := json.Unmarshal([]byte(more), &d); err != nil {
			return err
		}
		if n := len(d.Recent); n > 0 {
			d.Last = d.Recent[n-1]
		}
		if a.Resources == nil {
			a.Resources = Resources{}
		}
		a.Resources[first] = d
	case "attachment":
		var at cni.Attachment
		if err := json.Unmarshal([]byte(rest), &at); err != nil {
			return err
		}
		a.CNI.All = append(a.CNI.All, at)
	case "waits":
		at := a.CNI.All[len(a.CNI.All)-1]
		a.CNI.Waiting = append(a.CNI.Waiting, cni.Pending{Key: at.Key, Waits: rest})
	case "forgotten":
		var f cni.Forgotten
		if err := json.Unmarshal([]byte(rest), &f); err != nil {
			return err
		}
		a.CNI.Lost = append(a.CNI.Lost, f)
	case "left":
		var l wire.Left
		if err := json.Unmarshal([]byte(rest), &l.Request); err != nil {
			a.CNI.Unread = append(a.CNI.Unread, wire.Left{Err: err, File: "/run/plumb/cni-queue/torn.json"})
			return nil
		}
		a.CNI.Queue = append(a.CNI.Queue, l)
	default:
		st, err := Status(line)
		if err != nil {
			return err
		}
		a.Engine.Set(st)
	}
	return nil
}

func (a *Agent) containerLine(word, rest, first, more string) error {
	c := a.Containers
	switch word {
	case "container":
		msg, err := models.DecodeKind(models.KindContainer, []byte(rest))
		if err != nil {
			return err
		}
		if c.All == nil {
			c.All = map[string]*models.Container{}
		}
		one := msg.(*models.Container)
		c.All[one.Runtime+":"+one.ContainerId] = one
	case "microservice":
		msg, err := models.DecodeKind(models.KindMicroservice, []byte(more))
		if err != nil {
			return err
		}
		if c.Serving == nil {
			c.Serving = map[string]*models.Microservice{}
		}
		c.Serving[first] = msg.(*models.Microservice)
	case "runtime":
		state, why, _ := strings.Cut(more, " ")
		h := models.Health{Name: first, State: state, Reason: why}
		if state == "ok" {
			h.Details = map[string]string{"version": "20.10", "containers": fmt.Sprint(len(c.All)), "list_age": "3s"}
		}
		c.Parts = append(c.Parts, h)
	default:
		c.Unknown = fmt.Errorf("%s", rest)
	}
	return nil
}
