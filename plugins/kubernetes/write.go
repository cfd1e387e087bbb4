package kubernetes

import (
	"context"
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// patchStatus writes a status to a pod, or removes it if st is nil, and the annotation of its networks. The UID is a precondition: the API server
// answers 422 if another pod has the name by now. Labels, which decide what a pod belongs to, are never written.
func (s *Source) patchStatus(ctx context.Context, p *Pod, st *Status) error {
	metadata := map[string]any{"uid": p.UID}
	status := map[string]any{}
	if st == nil {
		metadata["annotations"] = map[string]any{StatusAnnotation: nil}
		status["conditions"] = []any{map[string]any{"type": ReadyCondition, "$patch": "delete"}}
	} else {
		text, err := json.Marshal(st)
		if err != nil {
			return err
		}
		c := st.condition()
		metadata["annotations"] = map[string]any{StatusAnnotation: string(text)}
		status["conditions"] = []any{map[string]any{"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message,
			"lastTransitionTime": st.Since.UTC().Format(time.RFC3339)}}
	}
	if networks := s.networks(p); networks != p.Networks {
		metadata["annotations"].(map[string]any)[NetworksAnnotation] = orNull(networks)
	}
	body, err := json.Marshal(map[string]any{"metadata": metadata, "status": status})
	if err != nil {
		return err
	}
	return s.follow.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
		return c.Patch(types.StrategicMergePatchType).Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("status").
			Body(body).Do(ctx).Error()
	})
}

// orNull returns a text for a patch, or nil, which removes the field, for "".
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}

// patchIntent writes the condition of a PodIntent. The UID is a precondition, as a test in the patch: the API server
// ignores metadata in a write of the status of a custom resource.
func (s *Source) patchIntent(ctx context.Context, i *PodIntent, st Status) error {
	c := i.intentCondition(st)
	body, err := json.Marshal([]any{
		map[string]any{"op": "test", "path": "/metadata/uid", "value": i.UID},
		map[string]any{"op": "add", "path": "/status", "value": map[string]any{"conditions": []any{
			metav1.Condition{Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
				ObservedGeneration: c.ObservedGeneration, LastTransitionTime: metav1.NewTime(st.Since)}}}},
	})
	if err != nil {
		return err
	}
	return s.followIntents.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
		return c.Patch(types.JSONPatchType).Namespace(i.Namespace).Resource(podIntentResource.Resource).Name(i.Name).SubResource("status").
			Body(body).Do(ctx).Error()
	})
}

// event reports that the network of a pod begins to fail, or recovers. A lost one is not repeated: the status of
// the pod says the same.
func (s *Source) event(ctx context.Context, p *Pod, st Status) {
	kind, reason, message := "Normal", "NetworkReady", "the network is as the pod wants it"
	if st.State == StateFailed {
		kind, reason, message = "Warning", "NetworkFailed", st.Reason
	}
	now := time.Now().UTC().Format(time.RFC3339)
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event", "type": kind, "reason": reason, "message": message,
		"metadata":       map[string]any{"namespace": p.Namespace, "generateName": p.Name[:min(len(p.Name), 200)] + "."},
		"involvedObject": map[string]any{"apiVersion": "v1", "kind": "Pod", "namespace": p.Namespace, "name": p.Name, "uid": p.UID},
		"source":         map[string]any{"component": "plumb-agent", "host": s.opts.Node},
		"firstTimestamp": now, "lastTimestamp": now, "count": 1,
	})
	if err == nil {
		err = s.follow.Request(ctx, func(ctx context.Context, c *rest.RESTClient) error {
			return c.Post().Namespace(p.Namespace).Resource("events").Body(body).SetHeader("Content-Type", "application/json").Do(ctx).Error()
		})
	}
	if err != nil {
		s.opts.Log.Warn("an event is not written", "pod", p.Path(), "error", err)
	}
}
