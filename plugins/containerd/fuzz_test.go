package containerd

import (
	"testing"
	"time"

	told "github.com/containerd/containerd/api/events"
	"github.com/containerd/containerd/api/services/containers/v1"
	"github.com/containerd/containerd/api/types"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/container"
)

// FuzzHear: whatever containerd tells, what is handed on names a container.
func FuzzHear(f *testing.F) {
	at := timestamppb.New(time.Unix(1700000000, 0))
	for _, m := range []proto.Message{
		&told.ContainerCreate{ID: "c1", Image: "bb:1"}, &told.ContainerDelete{ID: "c1"}, &told.TaskStart{ContainerID: "c1", Pid: 7},
		&told.TaskExit{ContainerID: "c1", ID: "c1", Pid: 7, ExitStatus: 137, ExitedAt: at}, &told.TaskOOM{ContainerID: "c1"},
	} {
		event, err := anypb.New(m)
		if err != nil {
			f.Fatal(err)
		}
		text, err := proto.Marshal(&types.Envelope{Timestamp: at, Namespace: "default", Topic: "/tasks/exit", Event: event})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var ev types.Envelope
		if proto.Unmarshal(text, &ev) != nil {
			return
		}
		e := &Engine{skip: map[string]bool{}}
		e.hear(&ev, func(h container.Hint) {
			if h.ID == "" || h.ID == ev.Namespace+":" {
				t.Errorf("%v is about %q", &ev, h.ID)
			}
		})
	})
}

// FuzzDescribe: whatever stands in containerd's record of a container, it is described.
func FuzzDescribe(f *testing.F) {
	f.Add("c1", []byte(`{"process":{"env":["A=b"]},"annotations":{"io.kubernetes.cri.container-type":"sandbox"},"linux":{"namespaces":[{"type":"network"}]}}`), []byte(`{"Metadata":{"IP":"10.0.0.1"}}`))
	f.Add("", []byte(`{"linux":null}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, id string, spec, sandbox []byte) {
		c := &containers.Container{ID: id, Spec: &anypb.Any{Value: spec}, Extensions: map[string]*anypb.Any{criSandboxData: {Value: sandbox}}}
		if d := describe(c); id != "" && d.Name == "" {
			t.Errorf("%q has no name", id)
		}
	})
}
