package member

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

const (
	// maxAsking bounds the questions that are answered at the same time; others wait.
	maxAsking = 4
	// askTime bounds one of them, maxRecords the transactions of one answer.
	askTime, maxRecords = 20 * time.Second, 100
)

// question takes a question up, unless it is known or there are too many; open gets those
// that are known from now on.
func (m *Member) question(ctx context.Context, kv models.Stored, open map[string]int64, parts *sync.WaitGroup) {
	id, is := strings.CutPrefix(kv.Key, record.AskPrefix)
	switch {
	case !is:
		return
	case m.questions[kv.Key] == kv.Revision:
		open[kv.Key] = kv.Revision
		return
	case m.asking == maxAsking:
		return // it is looked at again when one is answered
	}
	open[kv.Key] = kv.Revision
	m.asking++
	parts.Go(func() {
		m.answer(ctx, id, kv.Value)
		m.answered <- struct{}{}
	})
}

// answer answers one question. A store that does not take the answer is that of who asks.
func (m *Member) answer(ctx context.Context, id string, text []byte) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var q record.Question
	if json.Unmarshal(text, &q) != nil || q.Lease == 0 {
		return
	}
	var a record.Answer
	response, err := m.call(m.As(ctx, q.By+", through etcd"), q)
	switch {
	case err != nil:
		a.Error = short(err.Error())
	case len(response) > record.MaxAnswer:
		a.Error = fmt.Sprintf("the answer has %d bytes, and at most %d go through etcd: ask for less, or the agent itself", len(response), record.MaxAnswer)
	default:
		a.Response = response
	}
	value, err := json.Marshal(a)
	if err == nil {
		err = m.Store.Tell(ctx, record.AnswerPrefix+id, value, q.Lease)
	}
	if err != nil && ctx.Err() == nil {
		m.Log.Info("a question that came through etcd was not answered", "call", q.Call, "error", err)
	}
}

// call makes the call that is asked for; all of them only read.
func (m *Member) call(ctx context.Context, q record.Question) ([]byte, error) {
	switch q.Call {
	case "why":
		return ask(ctx, q, m.API.Why)
	case "diff":
		return ask(ctx, q, m.API.Diff)
	case "history":
		return ask(ctx, q, func(ctx context.Context, r *apiv1.HistoryRequest) (*apiv1.HistoryResponse, error) {
			if r.Limit == 0 || r.Limit > maxRecords {
				r.Limit = maxRecords
			}
			return m.API.History(ctx, r)
		})
	}
	return nil, fmt.Errorf("this agent does not answer %q through etcd; it answers why, diff and history", q.Call)
}

// ask makes one call.
func ask[Q any, PQ interface {
	*Q
	proto.Message
}, A proto.Message](ctx context.Context, q record.Question, call func(context.Context, PQ) (A, error)) ([]byte, error) {
	r := PQ(new(Q))
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(q.Request, r); err != nil {
		return nil, fmt.Errorf("the question cannot be read: %w", err)
	}
	a, err := call(ctx, r)
	if err != nil {
		return nil, err
	}
	return apiv1.JSON(a), nil
}
