package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/plumb-net/plumb/plugins/etcd/dial"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

const (
	// askTime is how long answers are waited for, and askEvery how often they are looked for.
	askTime, askEvery = 30 * time.Second, 200 * time.Millisecond
)

// Reply is what an agent answers.
type Reply struct {
	Label    string
	Response json.RawMessage
	Err      error
}

// Ask has agents make a call of their API that only reads, and returns their answers in the
// order of the labels. Who does not answer in time has an error.
func (f *Fleet) Ask(ctx context.Context, labels []string, by, call string, request []byte) ([]Reply, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	lease, err := f.etcd.Grant(ctx, outlive)
	if err != nil {
		return nil, err
	}
	defer lease.End()
	id := fmt.Sprintf("%016x", rand.Uint64())
	q := record.Question{Lease: lease.ID, By: by, Call: call, Request: request}
	puts := make([]put, len(labels))
	for i, l := range labels {
		puts[i] = put{below(l, record.AskPrefix+id), q}
	}
	if err := f.putAll(ctx, puts, lease); err != nil {
		return nil, err
	}
	got := map[string]Reply{}
	for open := labels; len(open) > 0; {
		select {
		case <-ctx.Done():
		case <-lease.Lost():
			return nil, dial.ErrLease
		case <-time.After(askEvery):
		}
		if ctx.Err() != nil {
			break
		}
		answers, err := f.getAll(ctx, open, record.AnswerPrefix+id)
		if err != nil {
			return nil, err
		}
		var left []string
		for _, l := range open {
			text, there := answers[l]
			if !there {
				left = append(left, l)
				continue
			}
			var a record.Answer
			err := json.Unmarshal(text, &a)
			if err == nil && a.Error != "" {
				err = errors.New(a.Error)
			}
			got[l] = Reply{l, a.Response, err}
		}
		open = left
	}
	out := make([]Reply, len(labels))
	for i, l := range labels {
		r, is := got[l]
		if out[i] = r; !is {
			out[i] = Reply{Label: l, Err: errors.New("no answer in time")}
		}
	}
	return out, nil
}
