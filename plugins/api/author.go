package api

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

const (
	// maxMessage bounds what is said about a change, in bytes, maxFiles and maxFile what
	// it was read from.
	maxMessage = 1000
	maxFiles   = 16
	maxFile    = 4096 // PATH_MAX
)

// checkAuthor refuses what is too long to be kept with every change.
func checkAuthor(r *apiv1.ApplyRequest) error {
	switch {
	case len(r.Message) > maxMessage:
		return refuse("the message has %d bytes; at most %d are allowed", len(r.Message), maxMessage)
	case len(r.Files) > maxFiles:
		return refuse("%d files are named; at most %d are allowed", len(r.Files), maxFiles)
	case slices.ContainsFunc(r.Files, func(f string) bool { return len(f) > maxFile }):
		return refuse("the name of a file has at most %d bytes", maxFile)
	}
	return nil
}

// signed are writes with the record of who makes them, if they change intent.
func (s *Server) signed(ctx context.Context, writes []models.Write, message string, files []string) []models.Write {
	if !slices.ContainsFunc(writes, func(w models.Write) bool { return strings.HasPrefix(w.Key, configPrefix) }) {
		return writes
	}
	now := s.Now()
	a := models.Author{By: who(ctx), Message: message, Files: files, Time: now}
	return append(writes, a.Write(fmt.Sprintf("%016x-%08x", now.UnixNano(), rand.Uint32())))
}

// written is how a value came into the store; nil if the store has none, or does not answer.
func (s *Server) written(ctx context.Context, key string) *apiv1.Written {
	st, ok, err := s.Store.Get(ctx, stored(key))
	if err != nil || !ok {
		return nil
	}
	a, ok, err := s.Store.Author(ctx, st.Revision)
	switch {
	case err != nil:
		return nil
	case !ok:
		return &apiv1.Written{Revision: st.Revision}
	}
	return &apiv1.Written{Revision: st.Revision, By: a.By, Message: a.Message, Files: a.Files, Time: timestamp(a.Time)}
}
