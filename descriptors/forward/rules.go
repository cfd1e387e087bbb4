package forward

import (
	"context"
	"errors"
	"fmt"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// set has every firewall hold the wanted rules and no others with the mark.
func (d *forward) set(ctx context.Context, mark string, wanted []kernel.FirewallRule) error {
	all, err := d.withoutStrays(ctx, mark, wanted)
	if err != nil {
		return err
	}
	for _, f := range all {
		chain := f.ForOthers()
		at := place(f, chain)
		for i, r := range missing(f, wanted) {
			if err := d.Firewalls.InsertRule(ctx, d.Kernel.Own(), f, chain, at+i, r); err != nil {
				return fmt.Errorf("put %q into %s of %s: %w", r, chain, f.Program, err)
			}
		}
	}
	return nil
}

// tries bounds how often rules that are too many are looked for.
const tries = 8

// withoutStrays removes what bears the mark and is not wanted, and returns the firewalls as
// they are then. Of rules that read the same the first is removed, which may be the one that
// was good; so they are read again until none is too many.
func (d *forward) withoutStrays(ctx context.Context, mark string, wanted []kernel.FirewallRule) ([]kernel.Firewall, error) {
	ns := d.Kernel.Own()
	for range tries {
		all, err := d.Firewalls.Firewalls(ctx, ns)
		if err != nil {
			return nil, err
		}
		removed := false
		for _, f := range all {
			for _, s := range strays(f, mark, wanted) {
				removed = true
				err := d.Firewalls.DeleteRule(ctx, ns, f, s.chain, s.rule)
				if err != nil && !errors.Is(err, kernel.ErrNotExist) {
					return nil, fmt.Errorf("remove %q from %s of %s: %w", s.rule, s.chain, f.Program, err)
				}
			}
		}
		if !removed {
			return all, nil
		}
	}
	return nil, errors.New("somebody makes the rules again that are removed")
}

// complete reports whether every firewall holds the rules and no others with the mark, and
// whether any holds one with it.
func complete(all []kernel.Firewall, mark string, wanted []kernel.FirewallRule) (whole, any bool) {
	whole = true
	for _, f := range all {
		whole = whole && len(missing(f, wanted)) == 0 && len(strays(f, mark, wanted)) == 0
		for _, rules := range f.Chains {
			for _, r := range rules {
				any = any || r.Comment() == mark
			}
		}
	}
	return whole, any
}
