package kubernetes

import (
	"fmt"
	"maps"
	"slices"

	"github.com/plumb-net/plumb/plugins/intent"
	"github.com/plumb-net/plumb/scheduler"
)

// wants holds the desired values of a pod by their origins: its annotation and its PodIntents.
type wants struct {
	own   intent.Values // of the annotation
	wrong error         // why the annotation cannot be read; own are the previous values then
	parts []part        // of the PodIntents, by precedence
	// values are the values that are submitted.
	values intent.Values
}

// part holds the values that one PodIntent wants.
type part struct {
	intent *PodIntent
	values intent.Values
	// keys are the keys of the values that are submitted.
	keys  []scheduler.Key
	wrong error // why the PodIntent cannot be read; values are the previous ones then
	// waits is why the PodIntent does not concern the pod, or "".
	waits string
	// refused is why the first of the other keys is not submitted, or "".
	refused string
}

// waiting returns parts without values, for PodIntents that have no pod.
func waiting(list []*PodIntent, why string) (parts []part) {
	for _, i := range list {
		parts = append(parts, part{intent: i, waits: why})
	}
	return parts
}

// wantsOf returns the desired values of a pod. The annotation overrides PodIntents, and an older PodIntent overrides
// a newer one. was are the previous values of the same pod: they stay where the new ones cannot be read.
func wantsOf(p *Pod, list []*PodIntent, was *wants, decode Decoder) *wants {
	w := &wants{values: intent.Values{}}
	if w.own, w.wrong = valuesOf(p, decode); w.wrong != nil {
		w.own = was.own
	}
	maps.Copy(w.values, w.own)
	owners := map[scheduler.Key]string{}
	for k := range w.own {
		owners[k] = "the annotation " + IntentAnnotation + " of the pod"
	}
	for _, i := range slices.SortedFunc(slices.Values(list), (*PodIntent).compare) {
		one := part{intent: i}
		if i.PodUID != "" && i.PodUID != p.UID {
			one.waits = fmt.Sprintf("the pod %s has the UID %s, and spec.podUID is %s", p.Path(), p.UID, i.PodUID)
			w.parts = append(w.parts, one)
			continue
		}
		if one.values, one.wrong = i.values(p, decode); one.wrong != nil {
			one.values = was.of(i)
		}
		for _, k := range slices.Sorted(maps.Keys(one.values)) {
			refused := ""
			switch owner := owners[k]; {
			case owner != "":
				refused = owner + " has this key too and overrides it; remove the key from one of the two"
			case len(w.values) >= maxKeys:
				refused = fmt.Sprintf("the pod has %d other keys; at most %d are allowed", len(w.values), maxKeys)
			default:
				owners[k] = "the older PodIntent " + i.Name
				w.values[k] = one.values[k]
				one.keys = append(one.keys, k)
			}
			if refused != "" && one.refused == "" {
				one.refused = fmt.Sprintf("%s: %s", p.localKey(k), refused)
			}
		}
		w.parts = append(w.parts, one)
	}
	return w
}

// of returns the values of a PodIntent.
func (w *wants) of(i *PodIntent) intent.Values {
	for _, p := range w.parts {
		if p.intent.UID == i.UID {
			return p.values
		}
	}
	return nil
}

// unreadable returns why the annotation or a PodIntent cannot be read, or nil.
func (w *wants) unreadable() error {
	if w.wrong != nil {
		return w.wrong
	}
	for _, p := range w.parts {
		if p.wrong != nil {
			return fmt.Errorf("PodIntent %s: %w", p.intent.Name, p.wrong)
		}
	}
	return nil
}
