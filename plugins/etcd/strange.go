package etcd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/fleet/record"
)

// ours are the keys below the label that mean something, sorted; what ends in a slash is
// all that is below it. The store is free for other things, but what was written beside
// config/ by mistake is never done, and nobody would know.
var ours = []string{
	record.PresenceKey, record.AnswerPrefix, "applyset/", models.AuthorPrefix, "config/", record.ConvergedKey, record.DuplicateKey,
	record.ForAgent, record.OutcomeKey, "status/", "store", record.SummaryKey,
}

// fewStrange is how many keys of each gap between ours are looked for.
const fewStrange = 3

// strangers lists some of the keys below the label that mean nothing to the agent.
func (p *Plugin) strangers(ctx context.Context, l *link) ([]string, error) {
	base := p.cfg.prefix()
	var gaps []clientv3.Op
	from := base
	gap := func(to string) {
		gaps = append(gaps, clientv3.OpGet(from, clientv3.WithRange(to), clientv3.WithKeysOnly(), clientv3.WithLimit(fewStrange)))
	}
	for _, name := range ours {
		gap(base + name)
		if from = base + name + "\x00"; strings.HasSuffix(name, "/") {
			from = clientv3.GetPrefixRangeEnd(base + name)
		}
	}
	gap(clientv3.GetPrefixRangeEnd(base))
	resp, err := withTimeout(ctx, p.cfg.tune, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return l.kv.Txn(ctx).Then(gaps...).Commit()
	})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range resp.Responses {
		for _, kv := range r.GetResponseRange().Kvs {
			out = append(out, string(kv.Key[len(base):]))
		}
	}
	return out, nil
}

// noteStrangers remembers what was found, and logs what is new.
func (p *Plugin) noteStrangers(found []string) {
	p.health.mu.Lock()
	defer p.health.mu.Unlock()
	for _, key := range found {
		if !slices.Contains(p.health.strange, key) {
			p.cfg.Log.Warn("a key of this label is none that the agent knows; intent is below "+p.cfg.prefix()+"config/", "key", p.cfg.prefix()+key)
		}
	}
	p.health.strange = found
}

// strange says which keys mean nothing, "" if there are none.
func strange(prefix string, keys []string) string {
	if len(keys) == 0 {
		return ""
	}
	more := ""
	if len(keys) > fewStrange {
		keys, more = keys[:fewStrange], " and more"
	}
	quoted := make([]string, len(keys))
	for i, k := range keys {
		quoted[i] = prefix + k
	}
	return fmt.Sprintf("not known and not read: %s%s; intent is below %sconfig/", strings.Join(quoted, ", "), more, prefix)
}
