package kubernetes

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"

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
//	podintent NAME pod=P        the API server has the PodIntent; the input is its map. The UID is its name
//	remove NAME                 the API server has deleted the PodIntent
//	podintents NAME …           the API server lists these PodIntents
//	crd UID                     the API server has a CRD with this UID
//	confirm                     the API server serves PodIntents a second after a removal
//	refuse CODE                 the API server answers a list of PodIntents with 404 or 403, as at the start of a story
//	silent                      the agent starts, and the API server does not answer a list of PodIntents
//	health                      the state and the PodIntents in the health
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
	intents  map[string]*podIntentObject
	attached map[string]bool
}

func newHistory() *history {
	h := &history{version: 100, pods: map[string]*object{}, intents: map[string]*podIntentObject{}, attached: map[string]bool{}}
	h.start()
	h.refuse(http.StatusNotFound)
	return h
}

// refuse has the API server answer a list of PodIntents with an error.
func (h *history) refuse(code int) {
	err := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	if code == http.StatusNotFound {
		err = apierrors.NewNotFound(schema.GroupResource{}, "")
	}
	h.Source.intents.Refuse(err)
}

// start makes a source, as a new agent does.
func (h *history) start() {
	h.Source = New(h, Options{Node: "n0", Kubeconfig: "none", Decode: models.Decode, Attached: func(pod string) bool { return h.attached[pod] }})
	h.followIntents.Note(nil)
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
			h.AttachmentsChanged("default", name)
		}
	case "podintent":
		o := &podIntentObject{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), ResourceVersion: fmt.Sprint(h.version)}}
		d.ScanArgs(t, "pod", &o.Spec.PodName)
		data, err := yaml.ToJSON([]byte(d.Input))
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		o.Spec.Intent = data
		h.intents[name] = o
		_ = h.Source.intents.Update(o)
	case "remove":
		gone := *h.intents[name]
		gone.ResourceVersion = fmt.Sprint(h.version)
		delete(h.intents, name)
		_ = h.Source.intents.Delete(&gone)
	case "podintents":
		var list []any
		version := fmt.Sprint(h.version)
		for _, arg := range d.CmdArgs {
			if arg.Key == "version" {
				version = arg.Vals[0]
			} else {
				list = append(list, h.intents[arg.Key])
			}
		}
		_ = h.Source.intents.Replace(list, version)
	case "crd":
		h.Source.intents.ComesFrom(types.UID(name))
	case "confirm":
		if _, any := h.Source.intents.Unconfirmed(); !any {
			h.text.WriteString("nothing\n")
			return
		}
		h.Source.intents.Confirm(time.Now())
	case "refuse":
		code, _ := strconv.Atoi(name)
		h.refuse(code)
	case "silent":
		h.start()
	case "health":
		h.follow.Note(nil)
		h.report()
		fmt.Fprintf(&h.text, "%s, podintents: %s\n", h.Health().State, h.Health().Details["podintents"])
		return
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
		saved, err := readCopy(file)
		if err != nil {
			t.Fatal(err)
		}
		h.start()
		h.refuse(http.StatusForbidden)
		h.load(saved)
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
