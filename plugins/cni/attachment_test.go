package cni_test

import (
	"os"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/spec"
)

// TestPhases walks from every phase by every method of the store, and compares that with the
// table in the documentation of Phase.
func TestPhases(t *testing.T) {
	methods := []struct {
		name string
		call func(s *cni.Store) error
	}{
		{"Begin", func(s *cni.Store) error { return s.Begin(cni.Attachment{Key: eth0}) }},
		{"Commit", func(s *cni.Store) error { return s.Commit(eth0, spec.Result{}) }},
		{"Remove", func(s *cni.Store) error { return s.Remove(eth0) }},
		{"Forget", func(s *cni.Store) error { s.Forget(eth0); return nil }},
	}
	doc, err := os.ReadFile("attachment.go")
	must(t, err)
	lines := strings.Split(string(doc), "\n")
	for phase, path := range map[string]int{"none": 0, "adding": 1, "added": 2, "removing": 3} {
		got := []string{"//", phase}
		for _, m := range methods {
			s, _ := openStore(t, t.TempDir())
			for _, step := range methods[:path] {
				must(t, step.call(s))
			}
			err := m.call(s)
			is := "none"
			if a, there := s.Get(eth0); there {
				is = string(a.Phase)
			}
			switch {
			case err != nil && is == phase:
				is = "-"
			case err != nil:
				t.Errorf("%s of what is %s: it is %s, and %v", m.name, phase, is, err)
			}
			got = append(got, is)
		}
		found := false
		for _, line := range lines {
			found = found || strings.Join(strings.Fields(line), " ") == strings.Join(got, " ")
		}
		if !found {
			t.Errorf("the documentation of Phase lacks %v", got)
		}
	}
}
