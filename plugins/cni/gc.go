package cni

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// gc removes the attachments of a network that the runtime does not know. There may
// be a second runtime that uses the network, so it keeps those that are younger than
// the call, those that somebody is at work on, and those of containers that run.
func (s *Service) gc(ctx context.Context, c Call) wire.Answer {
	began := time.Now().Unix()
	valid := map[Key]bool{}
	for _, v := range c.Network.Valid.List {
		valid[Key{c.Network.Name, v.ContainerID, v.IfName}] = true
	}
	release, err := s.alone(ctx, c.Network.Name)
	if err != nil {
		return wire.Answer{Error: gaveUp(err)}
	}
	defer release()
	var answer wire.Answer
	var failed []string
	for _, a := range s.store.Of(c.Network.Name) {
		if valid[a.Key] || a.Since >= began {
			continue
		}
		if why := s.lives(a); why != "" {
			answer.Warnings = append(answer.Warnings, fmt.Sprintf("%s is kept: %s", a.Key, why))
			continue
		}
		if ctx.Err() != nil {
			failed = append(failed, a.Key.String()+": timed out")
			continue
		}
		if done, left := s.drop(ctx, a, func(Attachment) bool { return true }); left != "" {
			failed = append(failed, a.Key.String()+": "+left)
		} else if done {
			s.log.Info("an attachment that the runtime does not know is removed", "attachment", a.Key.String())
		}
	}
	if len(failed) > 0 {
		answer.Error = &spec.Error{Code: spec.TryLater, Msg: fmt.Sprintf("%d attachments could not be removed", len(failed)), Details: strings.Join(failed, "; ")}
	}
	return answer
}

// lives says why an attachment is not to be collected, whatever a runtime says.
func (s *Service) lives(a Attachment) string {
	running, sure := s.host.Running(a.Key.ContainerID)
	here, _ := s.there(a)
	switch {
	case running:
		return "its container runs"
	case !sure && here:
		return "a runtime does not answer, and its network namespace is there"
	}
	return ""
}

// alone waits until no other GC of the network is under way.
func (s *Service) alone(ctx context.Context, name string) (release func(), err error) {
	_, leave, err := s.queue.Enter(ctx, Key{Network: name}, false)
	return leave, err
}
