package cni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/cni/network"
	"github.com/plumb-net/plumb/plugins/cni/spec"
	"github.com/plumb-net/plumb/scheduler"
)

// errNoIntent reports that the intent lacks the interface that a runtime requests.
var errNoIntent = errors.New("not in the intent")

// poolDelay is how long an ADD waits for intent if the network also has a pool.
const poolDelay = 10 * time.Second

// byIntent returns the addition of a call that gets the values of the intent for its pod. If there
// are none within the limit, a chained call succeeds without them. Any other call is attached from
// the pool of the network, or fails if there is none.
func (s *Service) byIntent(c Call) addition {
	pods := c.pods()
	a := addition{
		record: Attachment{Key: c.Key(), Netns: c.Netns, Inode: c.Inode, Boot: s.host.Boot(), Config: c.Config, Args: c.Args.Args,
			Pod: pods[0], Since: time.Now().Unix()},
		begin: lookAt(pods),
		keys:  podKeys(pods),
	}
	switch {
	case c.Network.Wait != nil:
		a.limit = time.Now().Add(time.Duration(*c.Network.Wait) * time.Second)
	case len(c.Network.Pool) > 0:
		a.limit = time.Now().Add(poolDelay)
	}
	limit := a.limit
	a.progress = func(ctx context.Context) ([]network.Want, string, error) {
		wants, waits, err := s.intent(ctx, c)
		over := limit.IsZero() && c.chained() || !limit.IsZero() && !time.Now().Before(limit)
		if err == nil && waits != "" && len(wants) == 0 && over {
			err = fmt.Errorf("%w: %s", errNoIntent, waits)
		}
		return wants, waits, err
	}
	return a
}

// refusedIntent refuses settings that belong into the intent, and, in a network without a pool,
// settings that require one.
func refusedIntent(call Call) *spec.Error {
	c := call.Network
	rt, wrong := call.runtime()
	switch {
	case wrong != nil:
		return wrong
	case c.Masquerade:
		return spec.NotSupported("masquerade", "in mode intent operators say it, by a value of the kind nftables")
	case c.Forward:
		return spec.NotSupported("forward", "in mode intent operators say it, by a value of the kind forward, or of their bridge")
	case len(c.Sysctl) > 0:
		return spec.NotSupported("sysctl", "in mode intent operators say it, by values of the kind sysctl in the pod")
	case rt.Bandwidth != (spec.Bandwidth{}):
		return spec.NotSupported("bandwidth", "in mode intent operators say it, by values of the kind qdisc in the pod")
	case len(rt.Ports) > 0:
		return spec.NotSupported("runtimeConfig.portMappings", "in mode intent put the plugin portmap after plumb-cni and declare the capability there")
	case len(c.Pool) == 0 && (len(c.Routes) > 0 || c.DefaultRoute != "" || c.Metric != 0 || c.Table != 0):
		return spec.NotSupported("routes, default_route, metric, table", "in mode intent operators say them, by values of the kind route in the pod")
	case len(c.Pool) == 0 && len(rt.IPs)+len(rt.Mac) > 0:
		return spec.NotSupported("runtimeConfig", "ips and mac are the operator's in mode intent, also as IP and MAC of CNI_ARGS")
	}
	return nil
}

// lookAt returns a transaction that reads the namespace of a pod.
func lookAt(pods []string) scheduler.Txn {
	return scheduler.Txn{Source: Source, Note: "pod " + pods[0], Look: podKeys(pods)}
}

// podKeys returns the keys of the namespace of a pod, one for each of its names.
func podKeys(pods []string) (keys []scheduler.Key) {
	for _, pod := range pods {
		keys = append(keys, podKey(pod))
	}
	return keys
}

// podKey returns the key of the namespace of a pod. It also stands for the values in it.
func podKey(pod string) scheduler.Key { return scheduler.Key(models.NamespacePodKey(pod)) }

// intent returns the values of the intent for the pod of a call, and what of them is not configured
// yet, or "".
func (s *Service) intent(ctx context.Context, c Call) (wants []network.Want, waits string, err error) {
	pods := c.pods()
	wants, err = s.wished(ctx, pods)
	if err != nil {
		return nil, "", err
	}
	named, at := false, map[scheduler.Key]bool{}
	for _, w := range wants {
		if v, ok := w.Value.(*models.Interface); ok && slices.Contains(pods, v.GetNamespace().GetPod()) {
			named = named || v.EffectiveHostName(w.Key) == c.IfName
			at[podKey(v.GetNamespace().GetPod())] = true
		}
	}
	if !named && !c.chained() || len(wants) == 0 {
		waits = fmt.Sprintf("an interface called %s in the pod %s, which is not in the intent", c.IfName, pods[0])
		why, err := s.host.Awaited(podIn(c.Args.Args))
		if err != nil {
			return nil, "", fmt.Errorf("%w: %w", ErrDeleted, err)
		}
		if why != "" {
			waits += ": " + why
		}
		return nil, waits, nil
	}
	for _, k := range slices.Sorted(maps.Keys(at)) {
		st, err := s.engine.Get(ctx, k)
		if ref, ok := st.Actual.(*models.NamespaceRef); err != nil || !ok || c.Inode != 0 && ref.GetInode() != c.Inode {
			return wants, fmt.Sprintf("%s, which is not where it is attached", k), nil
		}
	}
	waits, err = s.waits(ctx, scheduled(wants))
	return wants, waits, err
}

// wished returns the values of the intent for a pod: its interfaces, their veth peers, and the
// routes through its interfaces.
func (s *Service) wished(ctx context.Context, pods []string) (wants []network.Want, err error) {
	keys := s.events.pods.keys(pods)
	if len(keys) == 0 { // which would stand for all
		return nil, ctx.Err()
	}
	all, err := s.engine.List(ctx, keys...)
	if err != nil {
		return nil, err
	}
	for _, st := range all {
		switch v := st.Desired.(type) {
		case *models.Interface:
			wants = append(wants, network.Want{Key: string(st.Key), Value: v})
		case *models.Route:
			wants = append(wants, network.Want{Key: string(st.Key), Value: v})
		}
	}
	return wants, nil
}

// awaitGone waits until none of the desired interfaces in a pod exists, and returns the state of
// one that still does, or "". If the pod is attached again, its interfaces stay. A paused interface
// is removed with its namespace, and awaitGone does not wait for it.
func (s *Service) awaitGone(ctx context.Context, pods []string) (left string) {
	s.engine.Submit(lookAt(pods))
	// An error needs no report: left describes the interface.
	_ = s.wait(ctx, podKeys(pods), func() (waits string, _ error) {
		left = ""
		wants, _ := s.wished(ctx, pods) // none if the engine stops
		for _, w := range wants {
			v, ok := w.Value.(*models.Interface)
			if pod := v.GetNamespace().GetPod(); !ok || !slices.Contains(pods, pod) || s.store.attached(pod) {
				continue
			}
			if st, err := s.engine.Get(ctx, scheduler.Key(w.Key)); err == nil && st.Actual != nil {
				left = fmt.Sprintf("%s %s: %s", w.Key, st.State, st.Reason)
				if st.State != scheduler.Paused {
					waits = left
				}
			}
		}
		return waits, nil
	})
	return left
}

func nameOf(k scheduler.Key) string {
	_, name, _ := strings.Cut(string(k), "/")
	return name
}

func scheduled(wants []network.Want) []scheduler.Key {
	keys := make([]scheduler.Key, len(wants))
	for i, w := range wants {
		keys[i] = scheduler.Key(w.Key)
	}
	return keys
}

// leavePod removes an attachment whose objects come from the intent. They are removed because the
// pod no longer exists. It returns the state of an interface that is not removed yet, or "".
func (s *Service) leavePod(ctx context.Context, a Attachment) (left string) {
	if a.Phase != Removing {
		_ = s.store.Remove(a.Key) // del reports an error; the attachment is removed in any case
	}
	ctx, cancel := context.WithTimeout(ctx, delTimeout)
	defer cancel()
	left = s.awaitGone(ctx, a.pods())
	s.store.Forget(a.Key)
	return left
}
