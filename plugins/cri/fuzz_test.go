package cri

import (
	"testing"

	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// FuzzStatus: whatever an engine answers of a container and of a sandbox, it is read or
// refused. A container that runs has a process.
func FuzzStatus(f *testing.F) {
	info := map[string]string{"info": `{"pid":7,"sandboxID":"s1","runtimeSpec":{"process":{"env":["A=b"]}}}`}
	for _, m := range []proto.Message{
		&runtime.ContainerStatusResponse{Status: &runtime.ContainerStatus{Id: "c1", State: runtime.ContainerState_CONTAINER_RUNNING}, Info: info},
		&runtime.ContainerStatusResponse{Status: &runtime.ContainerStatus{Id: "c1", State: runtime.ContainerState_CONTAINER_EXITED, ExitCode: 137, Message: "x"}, Info: info},
		&runtime.PodSandboxStatusResponse{Status: &runtime.PodSandboxStatus{Id: "s1", Metadata: &runtime.PodSandboxMetadata{Name: "web"},
			Network: &runtime.PodSandboxNetworkStatus{Ip: "10.0.0.1", AdditionalIps: []*runtime.PodIP{{Ip: "fd00::1"}}}}, Info: info},
	} {
		text, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		var c runtime.ContainerStatusResponse
		if proto.Unmarshal(text, &c) == nil {
			if d, err := ofContainer(&c); err == nil && d.Running && d.Pid == 0 {
				t.Errorf("%v runs without a process", &c)
			}
		}
		var p runtime.PodSandboxStatusResponse
		if proto.Unmarshal(text, &p) == nil {
			if d, err := ofPod(&p); err == nil && d.Running && d.Pid == 0 {
				t.Errorf("%v runs without a process", &p)
			}
		}
	})
}
