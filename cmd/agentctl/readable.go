package main

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/plumb-net/plumb/plugins/safetext"
)

// readable makes every answer of the agent fit for people before anything is made of
// it: names and reasons may come from containers and hold what a terminal obeys. It
// is used for all forms that people read; JSON and YAML have escapes of their own.
type readable struct{}

var _ connect.Interceptor = readable{}

func (readable) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, req)
		if err == nil {
			makeReadable(resp.Any())
		}
		return resp, err
	}
}

func (readable) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		return readableConn{next(ctx, spec)}
	}
}

func (readable) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

type readableConn struct{ connect.StreamingClientConn }

func (c readableConn) Receive(msg any) error {
	err := c.StreamingClientConn.Receive(msg)
	if err == nil {
		makeReadable(msg)
	}
	return err
}

// isRead reports whether people read the format.
func isRead(format string) bool {
	switch format {
	case "table", "wide", "name", "dot", "mermaid", "svg":
		return true
	}
	return false
}

func makeReadable(answer any) {
	if m, ok := answer.(proto.Message); ok {
		walkTexts(m.ProtoReflect())
	}
}

func walkTexts(m protoreflect.Message) {
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap():
			walkMap(f, v.Map())
		case f.IsList():
			for i := range v.List().Len() {
				if w, is := walked(f, v.List().Get(i)); is {
					v.List().Set(i, w)
				}
			}
		default:
			if w, is := walked(f, v); is {
				m.Set(f, w)
			}
		}
		return true
	})
}

// walked returns what is to be in the place of a text that is not fit; what a message holds
// it changes where it is.
func walked(f protoreflect.FieldDescriptor, v protoreflect.Value) (protoreflect.Value, bool) {
	switch f.Kind() {
	case protoreflect.StringKind:
		text := safetext.Line(v.String())
		return protoreflect.ValueOfString(text), text != v.String()
	case protoreflect.MessageKind:
		walkTexts(v.Message())
	}
	return v, false
}

func walkMap(f protoreflect.FieldDescriptor, m protoreflect.Map) {
	type entry struct {
		was, is protoreflect.MapKey
		v       protoreflect.Value
	}
	var changed []entry
	m.Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
		key := k
		if f.MapKey().Kind() == protoreflect.StringKind {
			key = protoreflect.ValueOfString(safetext.Line(k.String())).MapKey()
		}
		w, is := walked(f.MapValue(), v)
		if is || key.String() != k.String() {
			changed = append(changed, entry{k, key, w})
		}
		return true
	})
	for _, e := range changed {
		m.Clear(e.was)
	}
	for _, e := range changed {
		m.Set(e.is, e.v)
	}
}
