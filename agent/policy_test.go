package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plumb-net/plumb/scheduler"
)

func TestPolicies(t *testing.T) {
	c, err := Load(write(t, `label: x
policy:
  - "* audit=1h"
  - sysctl/ drift=alert audit=10m
  - interface/uplink pause=cabling drift=ignore
  - microservice/ hold-down=2s
`), env(), nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePolicies(c.Policy)
	if err != nil {
		t.Fatal(err)
	}
	want := []scheduler.Policy{
		{Audit: time.Hour},
		{Keys: "sysctl/", Drift: scheduler.DriftAlert, Audit: 10 * time.Minute},
		{Keys: "interface/uplink", Drift: scheduler.DriftIgnore},
		{Keys: "microservice/", HoldDown: 2 * time.Second},
	}
	for i := range want {
		if i >= len(p.keys) || p.keys[i] != want[i] {
			t.Fatalf("got %+v, want %+v", p.keys, want)
		}
	}
	if len(p.paused) != 1 || p.paused["interface/uplink"] != "cabling" {
		t.Errorf("paused: %v", p.paused)
	}
	again, err := Load(write(t, c.YAML()), env(), nil)
	if err != nil || strings.Join(again.Policy, "\n") != strings.Join(c.Policy, "\n") {
		t.Errorf("printed and read again: %q, %v", again.Policy, err)
	}
	one, err := Load("", env("PLUMB_POLICY=a/ drift=alert, b/ audit=1m"), nil)
	if err != nil || len(one.Policy) != 2 {
		t.Errorf("from the environment: %q, %v", one.Policy, err)
	}
}

func TestBadPolicies(t *testing.T) {
	for line, want := range map[string]string{
		"a/":                           "want a pattern and what is so",
		"a/ drift=maybe":               "want repair, alert or ignore",
		"a/ audit=often":               `want a time like "30s"`,
		"a/ hold-down=-1s":             `want a time like "30s"`,
		"a/ disruptions=5":             `disruptions=5: want "off", or how many within a minute, as in "5/min"`,
		"a/ disruptions=0/min":         `as in "5/min"`,
		"a/ colour=blue":               `"colour": want drift=, hold-down=, audit=`,
		"* pause=all":                  "not for *",
		"a/ drift=alert,a/ audit=1m":   `two policies for "a/"`,
		"a/ pause=":                    `"pause": want`,
		"a/ pause=x drift=alert extra": `"extra"`,
	} {
		if _, err := Load("", env("PLUMB_POLICY="+line), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v; want %q", line, err, want)
		}
	}
}

// TestDeletions: how much may go at once is bounded unless somebody says otherwise.
func TestDeletions(t *testing.T) {
	for lines, want := range map[string]string{
		"":                                     "=200,50% ",
		"* drift=alert":                        "=200,50% ",
		"* deletions=off":                      "=off ",
		"route/ deletions=1000":                "route/=1000 =200,50% ",
		"route/ deletions=80%|* deletions=500": "route/=80% =500 ",
	} {
		p, err := parsePolicies(strings.FieldsFunc(lines, func(r rune) bool { return r == '|' }))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, k := range withDeletions(p.keys) {
			got += fmt.Sprintf("%s=%s ", k.Keys, k.Deletions)
		}
		if got != want {
			t.Errorf("%q: %s, want %s", lines, got, want)
		}
	}
	if _, err := parsePolicies([]string{"route/ deletions=lots"}); err == nil || !strings.Contains(err.Error(), `want "off", or how many may go`) {
		t.Error(err)
	}
}

// TestDisruptions: how many may begin to go within a minute, and that all may in spite of what
// is said of more keys.
func TestDisruptions(t *testing.T) {
	p, err := parsePolicies([]string{"* disruptions=9/min", "interface/ disruptions=2/min", "interface/lab/ disruptions=off"})
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, k := range p.keys {
		got += fmt.Sprintf("%s=%s ", k.Keys, k.Disruptions)
	}
	if want := "=9/min interface/=2/min interface/lab/=off "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
