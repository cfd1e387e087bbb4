package kubernetes

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestCRDDescribesLimits: "kubectl explain podintent.spec.intent" shows the kinds that pods may want, and how many keys.
func TestCRDDescribesLimits(t *testing.T) {
	file, err := os.ReadFile("../../deploy/kubernetes/podintent.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(file)), " ")
	for _, part := range []string{
		"KIND is one of " + strings.Join(podKinds, ", ") + ".",
		fmt.Sprintf("All keys of a pod together are at most %d.", maxKeys),
		fmt.Sprintf("maxProperties: %d", maxKeys),
		fmt.Sprintf("letters, digits, - and _, at most %d.", maxLocal),
	} {
		if !strings.Contains(text, part) {
			t.Errorf("podintent.yaml does not have %q", part)
		}
	}
}
