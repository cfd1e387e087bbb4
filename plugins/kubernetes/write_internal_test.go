package kubernetes

import (
	"context"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
	"github.com/plumb-net/plumb/plugins/kubernetes/mirror"
)

// TestPatchIntent writes the condition of a PodIntent, and then of a PodIntent with the same name and another UID.
func TestPatchIntent(t *testing.T) {
	s := kubetest.Start(t)
	api := s.Client(kubetest.Admin)
	api.ServePodIntents()
	uid := api.Want(kubetest.PodIntent{Namespace: "default", Name: "net", Node: "n0", Pod: "web"})
	source := New(&history{}, Options{Node: "n0", Kubeconfig: s.Kubeconfig(kubetest.Admin, ""), Decode: models.Decode})
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() { source.followIntents.Run(ctx) })
	<-source.news // which the first list signals
	i := &PodIntent{Namespace: "default", Name: "net", UID: types.UID(uid), Generation: 1}
	if err := source.patchIntent(t.Context(), i, Status{State: StateReady, Since: time.Now()}); err != nil {
		t.Fatal(err)
	}
	i.UID = "another"
	if err := source.patchIntent(t.Context(), i, Status{State: StateFailed, Since: time.Now()}); !mirror.IsGone(err) {
		t.Errorf("the write to a PodIntent with another UID: %v", err)
	}
	if is := api.Ready("default", "net"); is != "True Configured, " {
		t.Errorf("the condition is %q", is)
	}
}
