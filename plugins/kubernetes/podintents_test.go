package kubernetes_test

import (
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/kubernetes/kubetest"
)

// intents waits until the health describes the PodIntents by a word.
func (c *cluster) intents(word string) {
	c.t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		is := c.source.Health().Details["podintents"]
		if strings.Contains(is, word) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatalf("the PodIntents are described as %q, want %q", is, word)
		}
	}
}

// want creates or changes a PodIntent of its pod's name, which wants one interface.
func (c *cluster) want(pod, intent string) {
	c.t.Helper()
	c.api.Want(kubetest.PodIntent{Namespace: "default", Name: pod, Node: "n0", Pod: pod, Intent: intent})
}

// TestPodIntents follows PodIntents while their CRD is missing, created, deleted and created again.
func TestPodIntents(t *testing.T) {
	c := newCluster(t)
	c.pod("web")
	c.follow(c.Kubeconfig(kubetest.Admin, strings.TrimPrefix(c.proxy.URL(), "http://")), 0)
	c.is("ok", "", "web")
	c.intents("does not serve podintents.plumb.net")

	c.api.ServePodIntents()
	c.api.Create(kubetest.Pod{Namespace: "default", Name: "db", Node: "n0"})
	c.want("db", "interface/a: {dummy: {}}")
	c.want("web", "interface/a: {dummy: {}}") // which the annotation has too
	c.want("nosuch", "interface/a: {dummy: {}}")
	c.api.Want(kubetest.PodIntent{Namespace: "default", Name: "foreign", Node: "n1", Pod: "db", Intent: "interface/b: {dummy: {}}"})
	c.is("ok", "", "db", "web")
	c.intents("3")

	c.api.Unannotate("default", "web", "plumb.net/intent")
	c.pod("last")                       // the source takes it after the change of web
	c.is("ok", "", "db", "last", "web") // web by the PodIntent
	c.api.Remove("default", "last")
	c.is("ok", "", "db", "web")
	c.want("web", "{}")
	c.is("ok", "", "db")
	c.want("web", "interface/a: {dummy: {}}")
	c.is("ok", "", "db", "web")
	c.api.Unwant("default", "web")
	c.is("ok", "", "db")

	gone := len(c.wanted.all())
	c.api.DropPodIntents()
	c.is("degraded", "resync --accept", "db")
	c.api.ServePodIntents()
	c.intents("was deleted with its objects")
	c.want("db", "interface/a: {dummy: {}}")
	c.is("degraded", "resync --accept", "db")
	c.want("nosuch", "interface/a: {dummy: {}}")
	c.is("ok", "", "db")
	if all := c.wanted.all(); len(all) > gone {
		t.Errorf("withdrawn were %v", all[gone:])
	}
	// It is deleted and created again within milliseconds.
	c.api.DropPodIntents()
	c.api.ServePodIntents()
	c.is("degraded", "resync --accept", "db")
	c.want("db", "interface/a: {dummy: {}}")
	c.want("nosuch", "interface/a: {dummy: {}}")
	c.is("ok", "", "db")

	c.api.Unwant("default", "db")
	c.is("ok", "")

	// A server that is lost and accepted.
	c.want("db", "interface/a: {dummy: {}}")
	c.is("ok", "", "db")
	c.api.DropPodIntents()
	c.is("degraded", "resync --accept", "db")
	c.source.Accept()
	c.is("ok", "")
}

// TestPodIntentsForbidden: an agent that may not read PodIntents follows its pods. It reads PodIntents when it may, and
// keeps their values when it may no longer.
func TestPodIntentsForbidden(t *testing.T) {
	c := newCluster(t)
	c.api.ServePodIntents()
	c.pod("web")
	c.api.Create(kubetest.Pod{Namespace: "default", Name: "db", Node: "n0"})
	c.want("db", "interface/a: {dummy: {}}")
	c.follow(c.kubeconfig, 0)
	c.is("ok", "", "web")
	c.intents("refuses access to podintents.plumb.net")

	c.api.AllowNodes("plumb.net", "podintents", "list", "watch")
	c.is("ok", "", "db", "web")

	// The agent may not read the CRD.
	c.api.Unwant("default", "db")
	c.is("ok", "", "web")
	c.want("db", "interface/a: {dummy: {}}")
	c.is("ok", "", "db", "web")
	c.api.DropPodIntents()
	c.is("degraded", "resync --accept", "db", "web")
	c.api.ServePodIntents()
	c.want("db", "interface/a: {dummy: {}}")
	c.is("ok", "", "db", "web")

	c.api.DisallowNodes("podintents")
	node := c.Client(kubetest.Node("n0"))
	for end := time.Now().Add(time.Minute); node.MayReadIntents(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the API server does not count the change of the role")
		}
	}
	c.proxy.Break()
	c.intents("refuses access to podintents.plumb.net")
	c.is("degraded", "resync --accept", "db", "web")
}

// TestPodIntentIsValidated: the API server refuses a PodIntent that has a wrong field, and names it.
func TestPodIntentIsValidated(t *testing.T) {
	c := newCluster(t)
	c.api.ServePodIntents()
	many := ""
	for i := range 65 {
		many += "interface/a" + strings.Repeat("b", i) + ": {dummy: {}}\n"
	}
	for _, one := range []struct {
		i    kubetest.PodIntent
		want string
	}{
		{kubetest.PodIntent{Node: "n0", Pod: "web", Intent: "interface/a: {dummy: {}}"}, ""},
		{kubetest.PodIntent{Node: "", Pod: "web"}, "spec.nodeName"},
		{kubetest.PodIntent{Node: "N0", Pod: "web"}, "spec.nodeName"},
		{kubetest.PodIntent{Node: "n0", Pod: "a/b"}, "spec.podName"},
		{kubetest.PodIntent{Node: "n0", Pod: "web", Intent: "interface/a: 7"}, "spec.intent.interface/a"},
		{kubetest.PodIntent{Node: "n0", Pod: "web", Intent: many}, "spec.intent"},
	} {
		one.i.Namespace, one.i.Name = "default", "one"
		switch _, err := c.api.TryWant(one.i); {
		case one.want == "" && err != nil:
			t.Errorf("%+v: %v", one.i, err)
		case one.want != "" && (err == nil || !strings.Contains(err.Error(), one.want)):
			t.Errorf("%+v: %v, want an error of %s", one.i, err, one.want)
		}
	}
}
