package kubernetes

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// TestHistories shows what the source submits as pods come, change, are attached and go. A command is:
//
//	pod NAME uid=U [ended]      the API server has the pod; the input is its annotation
//	delete NAME                 the API server has deleted it
//	list pods=(NAME,…)          the API server lists these pods; with version=V that is its version
//	attach NAME uid=U, detach NAME uid=U
//	accept                      an operator accepts the API server
//	awaited NAME uid=U          the result of Awaited for an ADD
//	save                        the agent stops and starts, with the copy of the pods
func TestHistories(t *testing.T) {
	datadriven.Walk(t, "testdata/histories", func(t *testing.T, path string) {
		h := newHistory()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			h.text.Reset()
			h.run(t, d)
			return h.text.String()
		})
	})
}

type history struct {
	*Source
	text     strings.Builder
	version  int
	pods     map[string]*object
	attached map[string]bool
}

func newHistory() *history {
	h := &history{version: 100, pods: map[string]*object{}, attached: map[string]bool{}}
	h.start()
	return h
}

// start makes a source, as a new agent does.
func (h *history) start() {
	h.Source = New(h, Options{Node: "n0", Kubeconfig: "none", Decode: models.Decode, Attached: func(pod string) bool { return h.attached[pod] }})
}

// Submit notes a transaction.
func (h *history) Submit(txn scheduler.Txn) *scheduler.Handle {
	fmt.Fprintf(&h.text, "%s", txn.Note)
	if txn.Complete {
		h.text.WriteString(", complete")
	}
	h.text.WriteByte('\n')
	for _, c := range txn.Want {
		switch v := c.Value.(type) {
		case *models.Interface:
			fmt.Fprintf(&h.text, "  %s in %s mtu %d\n", c.Key, v.GetNamespace().GetPod(), v.GetMtu())
		case nil:
			if c.Invalid != nil {
				fmt.Fprintf(&h.text, "  %s invalid: %v\n", c.Key, c.Invalid)
			} else {
				fmt.Fprintf(&h.text, "  %s withdrawn\n", c.Key)
			}
		}
	}
	return nil
}

func (h *history) run(t *testing.T, d *datadriven.TestData) {
	name, uid, ended := "", "", d.HasArg("ended")
	d.MaybeScanArgs(t, "uid", &uid)
	if len(d.CmdArgs) > 0 {
		name = d.CmdArgs[0].Key
	}
	h.version++
	switch d.Cmd {
	case "pod":
		o := h.object(name, uid, d.Input, ended)
		h.pods[name] = o
		_ = h.store.Update(o)
	case "delete":
		gone := *h.pods[name]
		gone.ResourceVersion = fmt.Sprint(h.version)
		delete(h.pods, name)
		_ = h.store.Delete(&gone)
	case "list":
		var list []any
		version := fmt.Sprint(h.version)
		d.MaybeScanArgs(t, "version", &version)
		var names []string
		d.MaybeScanArgs(t, "pods", &names)
		for _, name := range names {
			list = append(list, h.pods[name])
		}
		_ = h.store.Replace(list, version)
	case "attach", "detach":
		h.attached["default/"+name+"/"+uid] = d.Cmd == "attach"
		if d.Cmd == "detach" {
			h.Detached("default", name)
		}
	case "accept":
		h.Accept()
	case "awaited":
		why, err := h.Awaited("default", name, uid)
		fmt.Fprintf(&h.text, "%s %v\n", why, err)
		return
	case "save":
		file := filepath.Join(t.TempDir(), "pods.json")
		h.opts.File = file
		h.save()
		pods, version, err := readCopy(file)
		if err != nil {
			t.Fatal(err)
		}
		h.start()
		h.store.load(pods, version)
	default:
		d.Fatalf(t, "unknown command")
	}
	h.submit(h.take())
}

func (h *history) object(name, uid, intent string, ended bool) *object {
	o := &object{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(uid), ResourceVersion: fmt.Sprint(h.version)}}
	if intent != "" {
		o.Annotations = map[string]string{IntentAnnotation: intent}
	}
	if o.Status.Phase = "Running"; ended {
		o.Status.Phase = "Succeeded"
	}
	return o
}
