package sysctl

import (
	"context"
	"fmt"
	"iter"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// retrieve reads the settings that the ledger names.
func (d *sysctl) retrieve(ctx context.Context, s scope) iter.Seq2[found, error] {
	return d.objects.Retrieve(ctx, s, func(e kernel.Entry) (*models.Sysctl, kernel.LinkRef, error) {
		v, at, err := d.look(e)
		if err == nil && !s.ReadOnly {
			d.note(scheduler.Key(e.ID), at, v)
		}
		return v, at, err
	})
}

func (d *sysctl) look(e kernel.Entry) (v *models.Sysctl, at kernel.LinkRef, err error) {
	if at, v, err = recorded(e); err != nil {
		return v, at, err
	}
	value, err := d.get(at, v)
	if err != nil {
		return v, at, fmt.Errorf("read %s: %w", v.GetKey(), err)
	}
	return as(v, value), at, nil
}
