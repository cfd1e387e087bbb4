package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/container"
)

func TestLabelRules(t *testing.T) {
	c, err := Load(write(t, `label: x
label-conflict: incumbent
label-carrier:
  - db-* runtime=docker image=registry.example/db:*
  - "* namespace=k8s.io name=shop/*"
`), env(), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.labelRules()
	want := []container.LabelCarrier{
		{Label: "db-*", Runtime: "docker", Image: "registry.example/db:*"},
		{Label: "*", Namespace: "k8s.io", Name: "shop/*"},
	}
	if err != nil || !got.Incumbent || !slices.Equal(got.Carriers, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if c, err = Load("", env(), nil); err != nil || c.LabelConflict != newest {
		t.Errorf("by default: %q, %v", c.LabelConflict, err)
	}
}

func TestBadLabelRules(t *testing.T) {
	for _, c := range []struct{ setting, value, want string }{
		{"LABEL_CONFLICT", "oldest", "want newest or incumbent"},
		{"LABEL_CARRIER", "db", "want a label and who may carry it"},
		{"LABEL_CARRIER", "name=db image=x", "stands where the label is wanted"},
		{"LABEL_CARRIER", "db colour=blue", "want runtime=, namespace=, name= or image="},
		{"LABEL_CARRIER", "db name=", "with a value"},
		{"LABEL_CARRIER", "db name=a name=b", "name stands twice"},
	} {
		_, err := Load("", env("PLUMB_"+c.setting+"="+c.value), nil)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: error %v; want %q", c.setting, c.value, err, c.want)
		}
	}
}

// FuzzLabelCarrier: what is read is written the same, and reading ends.
func FuzzLabelCarrier(f *testing.F) {
	for _, s := range []string{"db-* runtime=docker image=a:*", "* namespace=k8s.io name=shop/*", "x", "=", "a b=c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		all, err := parseCarriers([]string{line})
		if err != nil {
			return
		}
		again, err := parseCarriers([]string{all[0].String()})
		if err != nil || again[0] != all[0] {
			t.Errorf("%q: %+v, again %+v, %v", line, all[0], again, err)
		}
	})
}
