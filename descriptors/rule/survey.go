package rule

import (
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/descriptors/kind"
	"github.com/plumb-net/plumb/models"
)

// Survey finds the rules that people made. The kernel's own are not mentioned.
func Survey(s *kind.Survey) error {
	claimed := kind.Claimed(s, claims)
	for _, p := range s.Places {
		rules, err := s.Kernel.Rules(p.NS)
		if kernel.IsGone(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the rules of %s: %w", p.In.Text(), err)
		}
		links, err := s.Kernel.Links(p.NS)
		if err != nil && !kernel.IsGone(err) {
			return fmt.Errorf("read the links of %s: %w", p.In.Text(), err)
		}
		logical := map[string]string{"": "", models.LocalIif: models.LocalIif}
		for _, l := range links {
			if name, named := s.Link(p.NS, l.Index); named {
				logical[l.Name] = name
			}
		}
		for _, r := range rules {
			const ofKernel = 2
			if r.Protocol == ofKernel || r.Protocol == s.Owner.Protocol() {
				continue
			}
			iif, known := logical[r.Iif]
			oif, knownToo := logical[r.Oif]
			what := "rule " + text(r)
			v := survey(p, r, iif, oif)
			switch {
			case claimed(v):
			case !kernel.ByPeople(r.Protocol):
				s.Leave(p, what, "made by %s", kernel.ProtocolName(r.Protocol))
			case r.More:
				s.Leave(p, what, "it says something that a value cannot")
			case !known || !knownToo:
				s.Leave(p, what, "a link that it names is left out")
			default:
				name := s.Name(models.KindRule, p, fmt.Sprint(r.Priority))
				s.Add(p, what, models.KindRule+"/"+name, v)
			}
		}
	}
	return nil
}

// survey is a rule of others as a value.
func survey(p kind.Place, r kernel.Rule, iif, oif string) *models.Rule {
	v := &models.Rule{Priority: r.Priority, Fwmark: r.Mark, Iif: iif, Oif: oif, Table: r.Table, Adopt: true}
	if r.From.IsValid() {
		v.From = r.From.String()
	}
	if r.To.IsValid() {
		v.To = r.To.String()
	}
	if r.Mask != 0 && r.Mask != ^uint32(0) {
		v.Fwmask = r.Mask
	}
	if r.Action != "lookup" {
		v.Action = r.Action
	}
	if v.From == "" && v.To == "" {
		v.Family = familyOf(r)
	}
	if len(v.Interfaces()) == 0 {
		v.Namespace = p.In
	}
	return v
}
