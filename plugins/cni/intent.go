package cni

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/plugins/cni/wire"
	"github.com/plumb-net/plumb/scheduler"
)

// errNoIntent: no operator wants the interface that a runtime asks for.
var errNoIntent = errors.New("nobody wants it")

// patience is for how long intent is waited for where there is a pool to do without it.
const patience = 10 * time.Second

// addIntent answers an ADD when all is configured that operators want in the pod. If
// there is no such wish, the container is attached by the pool of the network, or the
// ADD fails.
func (s *Service) addIntent(ctx context.Context, c Call) wire.Answer {
	if wrong := refusedIntent(c); wrong != nil {
		return wire.Answer{Error: wrong}
	}
	err := s.store.Begin(Attachment{Key: c.Key(), Netns: c.Netns, Inode: c.Inode, Boot: s.host.Boot(), Config: c.Config,
		Pod: podOf(c), Since: time.Now().Unix()})
	var result spec.Result
	if err == nil {
		s.lookAt(podOf(c))
		var wants []Want
		if wants, err = s.awaitIntent(ctx, c); err == nil {
			err = s.carried(ctx, wants)
		}
		if err == nil {
			result, err = s.result(ctx, c, wants)
		}
	}
	if err == nil {
		err = s.store.Commit(c.Key(), result)
	}
	if err == nil {
		return wire.Answer{Result: &result}
	}
	s.undo(ctx, c.Key())
	if errors.Is(err, errNoIntent) && ctx.Err() == nil && len(c.Network.Pool) > 0 {
		return s.addByPool(ctx, c)
	}
	return wire.Answer{Error: gaveUp(err)}
}

// refusedIntent refuses what only a pool could give: what is in the pod operators say.
func refusedIntent(call Call) *spec.Error {
	c := call.Network
	rt, wrong := call.runtime()
	switch {
	case wrong != nil:
		return wrong
	case c.Masquerade:
		return unsupported("masquerade", "in mode intent operators say it, by a value of the kind nftables")
	case c.Forward:
		return unsupported("forward", "in mode intent operators say it, by a value of the kind forward, or of their bridge")
	case len(c.Sysctl) > 0:
		return unsupported("sysctl", "in mode intent operators say it, by values of the kind sysctl in the pod")
	case len(rt.Ports) > 0:
		return unsupported("runtimeConfig.portMappings", "in mode intent put the plugin portmap after plumb-cni and declare the capability there")
	case len(c.Pool) == 0 && (len(c.Routes) > 0 || c.DefaultRoute != "" || c.Metric != 0 || c.Table != 0):
		return unsupported("routes, default_route, metric, table", "in mode intent operators say them, by values of the kind route in the pod")
	case len(c.Pool) == 0 && len(rt.IPs)+len(rt.Mac) > 0:
		return unsupported("runtimeConfig", "ips and mac are the operator's in mode intent, also as IP and MAC of CNI_ARGS")
	}
	return nil
}

// lookAt has the scheduler look where a pod is.
func (s *Service) lookAt(pod string) {
	s.engine.Submit(scheduler.Txn{Source: Source, Note: "pod " + pod, Look: []scheduler.Key{scheduler.Key(models.NamespacePodKey(pod))}})
}

// awaitIntent waits until what is wanted in the pod is configured, and returns it.
func (s *Service) awaitIntent(ctx context.Context, c Call) ([]Want, error) {
	var limit <-chan time.Time
	switch {
	case c.Network.Wait != nil:
		limit = time.After(time.Duration(*c.Network.Wait) * time.Second)
	case len(c.Network.Pool) > 0:
		limit = time.After(patience)
	}
	news, stop := s.pods.follow(podOf(c))
	defer stop()
	ends, stop := s.events.follow(watched(c))
	defer stop()
	defer s.waitsFor(c.Key(), "")
	for seen := false; ; {
		wants, waits, err := s.intent(ctx, c)
		if err == nil && waits == "" {
			return wants, nil
		}
		if gone := s.gone(c, &seen); gone != nil {
			return nil, gone
		}
		if err != nil {
			return nil, err
		}
		if limit == nil && len(wants) == 0 && c.chained() {
			return nil, nil // the plugins before have made the interface; nothing more is wanted
		}
		s.waitsFor(c.Key(), waits)
		select {
		case <-news:
		case <-ends:
		case <-limit:
			if limit = nil; len(wants) == 0 {
				if c.chained() {
					return nil, nil
				}
				return nil, fmt.Errorf("%w: %s", errNoIntent, waits)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%w, waiting for %s", context.Cause(ctx), waits)
		}
	}
}

// intent is what operators want in the pod of a call, and what is not configured of
// it yet, "" if all is.
func (s *Service) intent(ctx context.Context, c Call) (wants []Want, waits string, err error) {
	pod := podOf(c)
	wants, err = s.wished(ctx, pod)
	if err != nil {
		return nil, "", err
	}
	named := slices.ContainsFunc(wants, func(w Want) bool {
		v, ok := w.Value.(*models.Interface)
		return ok && v.GetNamespace().GetPod() == pod && v.EffectiveHostName(w.Key) == c.IfName
	})
	if !named && !c.chained() || len(wants) == 0 {
		return nil, fmt.Sprintf("an interface called %s in the pod %s, which nobody wants", c.IfName, pod), nil
	}
	at := scheduler.Key(models.NamespacePodKey(pod))
	st, err := s.engine.Get(ctx, at)
	if ref, ok := st.Actual.(*models.NamespaceRef); err != nil || !ok || c.Inode != 0 && ref.GetInode() != c.Inode {
		return wants, fmt.Sprintf("%s, which is not where it is attached", at), nil
	}
	waits, err = s.waits(ctx, scheduled(wants))
	return wants, waits, err
}

// wished is what operators want in a pod: its interfaces, the other ends of their
// cables, and the routes by them.
func (s *Service) wished(ctx context.Context, pod string) (wants []Want, err error) {
	all, err := s.engine.List(ctx, models.KindInterface+"/", models.KindRoute+"/")
	if err != nil {
		return nil, err
	}
	inside, peers := map[string]bool{}, map[string]bool{}
	for _, st := range all {
		if v, ok := st.Desired.(*models.Interface); ok && v.GetNamespace().GetPod() == pod {
			inside[nameOf(st.Key)], peers[v.GetVeth().GetPeer()] = true, true
		}
	}
	for _, st := range all {
		switch v := st.Desired.(type) {
		case *models.Interface:
			if inside[nameOf(st.Key)] || peers[nameOf(st.Key)] {
				wants = append(wants, Want{string(st.Key), v})
			}
		case *models.Route:
			if slices.ContainsFunc(v.Interfaces(), func(name string) bool { return inside[name] }) {
				wants = append(wants, Want{string(st.Key), v})
			}
		}
	}
	return wants, nil
}

// awaitGone waits until nothing of what is wanted in a pod is there any more, and
// returns what is. Where the pod is attached again it stays.
func (s *Service) awaitGone(ctx context.Context, pod string) (left string) {
	s.lookAt(pod)
	news, stop := s.pods.follow(pod)
	defer stop()
	for {
		wants, err := s.wished(ctx, pod)
		if path, _ := s.store.Pod(pod); err != nil || path != "" {
			return ""
		}
		left = ""
		for _, w := range wants {
			v, ok := w.Value.(*models.Interface)
			if st, err := s.engine.Get(ctx, scheduler.Key(w.Key)); ok && v.GetNamespace().GetPod() == pod && err == nil && st.Actual != nil {
				left = fmt.Sprintf("%s %s: %s", w.Key, st.State, st.Reason)
			}
		}
		if left == "" {
			return ""
		}
		select {
		case <-news:
		case <-ctx.Done():
			return left
		}
	}
}

func nameOf(k scheduler.Key) string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}

func scheduled(wants []Want) []scheduler.Key {
	keys := make([]scheduler.Key, len(wants))
	for i, w := range wants {
		keys[i] = scheduler.Key(w.Key)
	}
	return keys
}

// leavePod withdraws an attachment that operators' values made: there is no such pod
// any more. It returns what is not gone yet.
func (s *Service) leavePod(ctx context.Context, a Attachment) (left string) {
	if a.Phase != Removing {
		_ = s.store.Remove(a.Key) // who asks is told; it is removed in any case
	}
	ctx, cancel := context.WithTimeout(ctx, goes)
	defer cancel()
	left = s.awaitGone(ctx, a.Pod)
	s.store.Forget(a.Key)
	return left
}
