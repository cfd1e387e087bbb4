package kubernetes

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
)

// TestPatchIntent writes the condition of a PodIntent, and then of a PodIntent with the same name and another UID.
func TestPatchIntent(t *testing.T) {
	s := kubetest.Start(t)
	api := s.Client(kubetest.Admin)
	api.ServePodIntents()
	uid := api.Want(kubetest.PodIntent{Namespace: "default", Name: "net", Node: "n0", Pod: "web"})
	c, err := connect(s.Kubeconfig(kubetest.Admin, ""), podIntentResource)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{resource: podIntentResource, client: c}
	i := &PodIntent{Namespace: "default", Name: "net", UID: types.UID(uid), Generation: 1}
	if err := f.patchIntent(t.Context(), i, Status{State: StateReady, Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	i.UID = "another"
	if err := f.patchIntent(t.Context(), i, Status{State: StateFailed, Since: time.Now()}); !isGone(err) {
		t.Errorf("the write to a PodIntent with another UID: %v", err)
	}
	if is := api.Ready("default", "net"); is != "True Configured, " {
		t.Errorf("the condition is %q", is)
	}
}
