package agent

import (
	"fmt"
	"strings"

	"github.com/plumb-net/plumb/plugins/container"
)

// Who has a service label that several containers bear.
const (
	newest    = "newest"
	incumbent = "incumbent"
)

// labelRules are what the configuration says of service labels.
func (c *Config) labelRules() (r container.LabelRules, err error) {
	switch c.LabelConflict {
	case newest, "":
	case incumbent:
		r.Incumbent = true
	default:
		return r, fmt.Errorf("label-conflict %q: want %s or %s", c.LabelConflict, newest, incumbent)
	}
	r.Carriers, err = parseCarriers(c.LabelCarrier)
	return r, err
}

// parseCarriers reads lines like
//
//	db-* runtime=docker image=registry.example/db:*
//	shop namespace=k8s.io name=shop/*
//
// The label, and what is asked of its carrier, are texts with * for any text.
func parseCarriers(lines []string) (all []container.LabelCarrier, err error) {
	for _, l := range lines {
		f := strings.Fields(l)
		if len(f) < 2 {
			return nil, fmt.Errorf(`label-carrier %q: want a label and who may carry it, as in "db-* runtime=docker name=db-*"`, l)
		}
		c := container.LabelCarrier{Label: f[0]}
		if strings.Contains(c.Label, "=") {
			return nil, fmt.Errorf("label-carrier %q: %q stands where the label is wanted", l, f[0])
		}
		for _, word := range f[1:] {
			name, value, _ := strings.Cut(word, "=")
			field := map[string]*string{"runtime": &c.Runtime, "namespace": &c.Namespace, "name": &c.Name, "image": &c.Image}[name]
			switch {
			case field == nil || value == "":
				return nil, fmt.Errorf("label-carrier %q: %q: want runtime=, namespace=, name= or image=, with a value", l, word)
			case *field != "":
				return nil, fmt.Errorf("label-carrier %q: %s stands twice", l, name)
			}
			*field = value
		}
		all = append(all, c)
	}
	return all, nil
}
