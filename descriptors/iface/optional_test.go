package iface_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/plumb-net/plumb/descriptors/kernel"
	"github.com/plumb-net/plumb/scheduler"
)

// TestUnsetWhileStopped: a setting that is taken from a value while no agent runs gets the
// kernel's default back, as the ledger knows that it was ours; also if the agent that does
// so is killed. Without a ledger nobody knows, and it stays.
func TestUnsetWhileStopped(t *testing.T) {
	const before, after = `{"bridge":{"priority":4096}}`, `{"bridge":{"stp":true}}`
	for name, c := range map[string]struct {
		between func(*bench)
		want    float64
	}{
		"restarted": {func(*bench) {}, 32768},
		"killed as it began": {func(b *bench) {
			b.restartOn(broken{b.Kernel})
			b.take("br", after)
			if err := b.update("br", after); !errors.Is(err, errCrash) {
				t.Errorf("the update: %v", err)
			}
		}, 32768},
		"without the ledger": {func(b *bench) { *b.ledger = kernel.MemLedger{} }, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.make("br", before)
			c.between(b)
			b.restart()
			b.take("br", after)
			b.finish("br", after)
			b.same("br")
			info, _ := b.own.Show(t, "br")["linkinfo"].(map[string]any)
			if got := dig(info, "info_data.priority"); got != c.want {
				t.Errorf("priority %v, want %v", got, c.want)
			}
		})
	}
}

// take believes what is found of a link that is wanted.
func (b *bench) take(name, text string) {
	b.t.Helper()
	k, _ := b.want(name, text)
	f := b.look(name)[k]
	b.self.put(k, f.Value, f.Meta)
	if verdict := b.kind.Compare(k, f.Value, b.value(text)); verdict.Change != scheduler.InPlace {
		b.t.Errorf("%s is %v", name, verdict)
	}
}

// broken is a kernel that takes no change of a link.
type broken struct{ kernel.Kernel }

func (broken) SetLink(kernel.NS, int, kernel.LinkPatch) error { return errCrash }

func (broken) SetLinks(_ kernel.NS, changes []kernel.LinkChange) []error {
	return slices.Repeat([]error{errCrash}, len(changes))
}
