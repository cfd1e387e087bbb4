package fleet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/fleet"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

func labelsOf(t *testing.T, text string) map[string]string {
	t.Helper()
	out, err := record.ParseLabels(strings.Fields(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSelector(t *testing.T) {
	for _, x := range []struct{ selector, labels, want string }{
		{"", "", "yes"},
		{"role=web", "role=web rack=a3", "yes"},
		{"role==web", "role=web", "yes"},
		{"role=web", "role=db", "no"},
		{"role=web", "", "no"},
		{"role=web,rack!=a3", "role=web rack=a3", "no"},
		{"role=web, rack!=a3", "role=web rack=a4", "yes"},
		{"rack!=a3", "", "yes"},
		{"rack", "rack=", "yes"},
		{"rack", "role=web", "no"},
		{"!rack", "role=web", "yes"},
		{"!rack", "rack=a3", "no"},
		{"role=", "role=", "yes"},
		{"role=web,", "", `selector "": want role=web, role!=web, role or !role, with commas between them`},
		{"role in web", "", `selector "role in web": want role=web, role!=web, role or !role, with commas between them`},
		{"role!web", "", `selector "role!web": want role=web, role!=web, role or !role, with commas between them`},
	} {
		s, err := fleet.ParseSelector(x.selector)
		got := map[bool]string{true: "yes", false: "no"}[s.Matches(labelsOf(t, x.labels))]
		if err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%q of %q: %s, want %s", x.selector, x.labels, got, x.want)
		}
	}
}

func TestChoose(t *testing.T) {
	all := []fleet.Agent{{Label: "db-1", Labels: labelsOf(t, "role=db")}, {Label: "web-1", Labels: labelsOf(t, "role=web")}, {Label: "web-2", Labels: labelsOf(t, "role=web")}}
	for _, x := range []struct{ selector, patterns, want string }{
		{"", "", "db-1 web-1 web-2"},
		{"role=web", "", "web-1 web-2"},
		{"", "web-?", "web-1 web-2"},
		{"", "db-* web-2", "db-1 web-2"},
		{"role=web", "*-1", "web-1"},
		{"role=none", "", ""},
	} {
		s, err := fleet.ParseSelector(x.selector)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range fleet.Choose(all, s, strings.Fields(x.patterns)) {
			got = append(got, a.Label)
		}
		if strings.Join(got, " ") != x.want {
			t.Errorf("%s %s: %s, want %s", x.selector, x.patterns, got, x.want)
		}
	}
	if fleet.CheckPattern("web-[") == nil || fleet.CheckPattern("") == nil || fleet.CheckPattern("web-*") != nil {
		t.Error("patterns are not checked")
	}
}

func TestWaves(t *testing.T) {
	for _, x := range []struct {
		text  string
		hosts int
		want  string
	}{
		{"1,10%,50%,100%", 20, "1 1 8 10"},
		{"1,10%,50%,100%", 3, "1 1 1"},
		{"1,10%,50%,100%", 1, "1"},
		{"100%", 4, "4"},
		{"2,5", 5, "2 3"},
		{"2,99", 5, "2 3"},
		{"50%", 4, `waves "50%": they end with 2 of 4 hosts; the last one must be 100%`},
		{"0,100%", 4, `waves "0,100%": "0" is none; write numbers of hosts or percents, such as 1,10%,50%,100%`},
		{"101%", 4, `waves "101%": "101%" is none; write numbers of hosts or percents, such as 1,10%,50%,100%`},
		{"one", 4, `waves "one": "one" is none; write numbers of hosts or percents, such as 1,10%,50%,100%`},
	} {
		hosts := make([]string, x.hosts)
		for i := range hosts {
			hosts[i] = fmt.Sprint(i)
		}
		waves, err := fleet.Waves(x.text, hosts)
		var sizes, all []string
		for _, w := range waves {
			sizes, all = append(sizes, fmt.Sprint(len(w))), append(all, w...)
		}
		got := strings.Join(sizes, " ")
		if err != nil {
			got = err.Error()
		} else if strings.Join(all, " ") != strings.Join(hosts, " ") {
			t.Errorf("%s of %d: %v", x.text, x.hosts, waves)
		}
		if got != x.want {
			t.Errorf("%s of %d: %s, want %s", x.text, x.hosts, got, x.want)
		}
	}
}

func TestTemplates(t *testing.T) {
	const values = "defaults: {mtu: 1500, dns: [a, b]}\nhosts: {web-1: {mtu: 9000}}\n"
	v, err := fleet.ParseValues([]byte(values), "values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	one := fleet.Agent{Label: "web-1", Labels: labelsOf(t, "rack=a3")}
	two := fleet.Agent{Label: "web-2"}
	for _, x := range []struct {
		text  string
		agent fleet.Agent
		want  string
	}{
		{"{{ .agent }} {{ .labels.rack }} {{ .values.mtu }}", one, "web-1 a3 9000"},
		{"{{ .values.mtu }} {{ json .values.dns }}", two, `1500 ["a","b"]`},
		{"a\nb\n{{ .labels.rack }}", two, `site.yaml:3:10: executing "site.yaml" at <.labels.rack>: map has no entry for key "rack"`},
		{"\n{{ .values.nope }}", one, `site.yaml:2:10: executing "site.yaml" at <.values.nope>: map has no entry for key "nope"`},
		{"{{ .host }}", one, `site.yaml:1:3: executing "site.yaml" at <.host>: map has no entry for key "host"`},
		{"\n\n{{ if }}", one, `site.yaml:3: missing value for if`},
	} {
		got := ""
		tmpl, err := fleet.ParseTemplate([]byte(x.text), "site.yaml")
		if err == nil {
			var text []byte
			text, err = tmpl.Render(x.agent, v)
			got = string(text)
		}
		if err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("%q of %s: %s, want %s", x.text, x.agent.Label, got, x.want)
		}
	}
	for text, want := range map[string]string{
		"web-1: {mtu: 1}":            "field web-1 not found",
		"hosts: {web-1: {mtu: }}":    "v.yaml: hosts.web-1.mtu is null; give it a value or leave it out",
		"defaults: {a: [{b: null}]}": "v.yaml: defaults.a[0].b is null",
		"hosts: [web-1]":             "want the maps defaults: {name: value} and hosts: {host: {name: value}}",
	} {
		if _, err := fleet.ParseValues([]byte(text), "v.yaml"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
