package iptables

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// TestStops reads testdata/stops: what iptables -S lists, and of which packets it is certain
// that they are stopped: from the one link to the other, as the arguments say.
func TestStops(t *testing.T) {
	datadriven.RunTest(t, "testdata/stops", func(t *testing.T, d *datadriven.TestData) string {
		f, err := parse("iptables-nft", d.Input)
		if err != nil {
			return "error: " + err.Error() + "\n"
		}
		var b strings.Builder
		for _, arg := range d.CmdArgs {
			in, out, _ := strings.Cut(arg.Key, ">")
			fmt.Fprintf(&b, "%s to %s: %v\n", in, out, f.Stops(in, out))
		}
		fmt.Fprintf(&b, "others have their rules in %s; it concerns: %v\n", f.ForOthers(), f.Concerns())
		return b.String()
	})
}

// FuzzParse: no listing brings the reader down, and what is read is what was listed.
func FuzzParse(f *testing.F) {
	stories, err := os.ReadFile("testdata/stops")
	if err != nil {
		f.Fatal(err)
	}
	for story := range strings.SplitSeq(string(stories), "\n\n") {
		_, listing, _ := strings.Cut(story, "\n")
		listing, _, _ = strings.Cut(listing, "----")
		f.Add(listing)
	}
	f.Add(`-A FORWARD -m comment --comment "a \"quoted\" one" -j ACCEPT`)
	f.Fuzz(func(t *testing.T, listing string) {
		w, err := parse("iptables-nft", listing)
		if err != nil {
			return
		}
		w.Stops("br0", "br0")
		w.ForOthers()
		listed := rulesListed(listing)
		for name, rules := range w.Chains {
			if len(rules) != listed[name] {
				t.Errorf("%s has %d rules, %d were listed", name, len(rules), listed[name])
			}
			for _, r := range rules {
				if slices.Contains(r, "") && !strings.Contains(listing, `""`) {
					t.Errorf("%s has an empty word in %q", name, r)
				}
				_, _, _ = r.Comment(), r.Ends(), r.Always()
			}
		}
		_ = kernel.FirewallRule(nil).String()
	})
}

// rulesListed counts the rules of each chain, from the words of the lines alone; a chain
// that is made or given a policy has none yet.
func rulesListed(listing string) map[string]int {
	n := map[string]int{}
	for line := range strings.Lines(listing) {
		words, _ := split(strings.TrimSpace(line))
		switch {
		case len(words) < 2:
		case words[0] == "-A":
			n[words[1]]++
		case words[0] == "-N", words[0] == "-P" && len(words) >= 3:
			n[words[1]] = 0
		}
	}
	return n
}
