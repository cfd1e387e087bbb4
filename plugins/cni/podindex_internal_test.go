package cni

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestPodIndex plays random changes of intent. The index has for each pod the keys that a search through all
// values finds, and names the pods that a change concerns.
func TestPodIndex(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 0))
		name := func() string { return fmt.Sprintf("i%d", random.IntN(6)) }
		pods := []string{"", "a/b", "a/b/1", "c/d"}
		var index podIndex
		all := map[scheduler.Key]any{}
		for range 100 {
			st := scheduler.Status{Key: scheduler.Key(models.InterfaceKey(name())), Kind: models.KindInterface}
			switch random.IntN(4) {
			case 0:
				st = scheduler.Status{Key: scheduler.Key(models.RouteKey(name())), Kind: models.KindRoute}
				if random.IntN(3) > 0 {
					st.Desired = &models.Route{Nexthops: []*models.NextHop{{Interface: name()}, {Interface: name()}}}
				}
			case 1: // withdrawn
			default:
				v := &models.Interface{}
				if pod := pods[random.IntN(len(pods))]; pod != "" {
					v.Namespace = &models.Namespace{In: &models.Namespace_Pod{Pod: pod}}
				}
				if random.IntN(2) == 0 {
					v.Link = &models.Interface_Veth{Veth: &models.Veth{Peer: name()}}
				}
				st.Desired = v
			}
			before := map[string]string{}
			for _, pod := range pods[1:] {
				before[pod] = fmt.Sprint(search(all, pod), values(all, pod))
			}
			if all[st.Key] = st.Desired; st.Desired == nil {
				delete(all, st.Key)
			}
			concerned := index.concerned([]scheduler.Status{st})
			for _, pod := range pods[1:] {
				if is, want := index.keys([]string{pod}), search(all, pod); !slices.Equal(is, want) {
					t.Fatalf("seed %d: the keys of %s are %v, want %v", seed, pod, is, want)
				}
				if after := fmt.Sprint(search(all, pod), values(all, pod)); after != before[pod] && !slices.Contains(concerned, podKey(pod)) {
					t.Fatalf("seed %d: %s changes %s\nfrom %s\nto   %s, and concerns %v", seed, st.Key, pod, before[pod], after, concerned)
				}
			}
		}
	}
}

// search finds the keys of a pod in the plainest way.
func search(all map[scheduler.Key]any, pod string) []scheduler.Key {
	found := map[scheduler.Key]bool{}
	for k, v := range all {
		if v, ok := v.(*models.Interface); ok && v.GetNamespace().GetPod() == pod {
			found[k] = true
			if peer := v.GetVeth().GetPeer(); peer != "" {
				found[scheduler.Key(models.InterfaceKey(peer))] = true
			}
			for r, route := range all {
				if route, ok := route.(*models.Route); ok && slices.Contains(route.Interfaces(), nameOf(k)) {
					found[r] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// values are the values of the keys of a pod.
func values(all map[scheduler.Key]any, pod string) (list []string) {
	for _, k := range search(all, pod) {
		list = append(list, fmt.Sprint(all[k]))
	}
	return list
}
