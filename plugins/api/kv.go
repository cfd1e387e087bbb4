package api

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// GetKV implements the service.
func (s *Server) GetKV(ctx context.Context, r *apiv1.GetKVRequest) (*apiv1.KV, error) {
	if err := checkRawKey(r.Key); err != nil {
		return nil, err
	}
	st, ok, err := s.Store.Get(ctx, r.Key)
	if err != nil {
		return nil, fail(err)
	}
	if !ok {
		return nil, notFound("the store has no key %s; see `agentctl kv list`", r.Key)
	}
	return kv(st), nil
}

// ListKV implements the service.
func (s *Server) ListKV(ctx context.Context, r *apiv1.ListKVRequest) (*apiv1.ListKVResponse, error) {
	all, err := s.Store.List(ctx, r.Prefix)
	if err != nil {
		return nil, fail(err)
	}
	out := new(apiv1.ListKVResponse)
	for _, st := range all {
		out.Entries = append(out.Entries, kv(st))
	}
	return out, nil
}

// PutKV implements the service.
func (s *Server) PutKV(ctx context.Context, r *apiv1.PutKVRequest) (*apiv1.PutKVResponse, error) {
	if err := checkRawKey(r.Key); err != nil {
		return nil, err
	}
	value := r.Raw
	if len(value) == 0 {
		value = []byte(r.Value)
	}
	revision, err := s.Store.Write(ctx, s.signed(ctx, []models.Write{{Key: r.Key, Value: value}}, "", nil))
	if err != nil {
		return nil, fail(err)
	}
	return &apiv1.PutKVResponse{Revision: revision}, nil
}

// DeleteKV implements the service.
func (s *Server) DeleteKV(ctx context.Context, r *apiv1.DeleteKVRequest) (*apiv1.DeleteKVResponse, error) {
	if err := checkRawKey(r.Key); err != nil {
		return nil, err
	}
	_, ok, err := s.Store.Get(ctx, r.Key)
	if err != nil {
		return nil, fail(err)
	}
	if !ok {
		return new(apiv1.DeleteKVResponse), nil
	}
	revision, err := s.Store.Write(ctx, s.signed(ctx, []models.Write{{Key: r.Key}}, "", nil))
	if err != nil {
		return nil, fail(err)
	}
	return &apiv1.DeleteKVResponse{Revision: revision}, nil
}

func checkRawKey(key string) error {
	if key == "" || strings.HasPrefix(key, "/") {
		return refuse("%q is no key of the store; keys stand without the agent's prefix, for example config/interface/web", key)
	}
	return nil
}

func kv(st models.Stored) *apiv1.KV {
	out := &apiv1.KV{Key: st.Key, Revision: st.Revision}
	if utf8.Valid(st.Value) {
		out.Value = string(st.Value)
	} else {
		out.Raw = st.Value
	}
	return out
}
