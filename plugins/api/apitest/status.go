package apitest

import (
	"encoding/json"
	"fmt"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// Status reads a status as `agentctl get -o json` writes it.
func Status(text string) (scheduler.Status, error) {
	in := new(apiv1.KeyStatus)
	if err := protojson.Unmarshal([]byte(text), in); err != nil {
		return scheduler.Status{}, fmt.Errorf("%s: %w", text, err)
	}
	return status(in)
}

func status(in *apiv1.KeyStatus) (st scheduler.Status, err error) {
	kind, _, _ := strings.Cut(in.Key, "/")
	st = scheduler.Status{
		Key: scheduler.Key(in.Key), Kind: kind, Reason: in.Reason, Origin: in.Origin, Shadowed: in.Shadowed,
		Base: scheduler.Key(in.Base), Busy: in.Busy, Attempts: int(in.Attempts), Cause: in.Cause,
	}
	if st.State, err = state(in.State); err != nil {
		return st, fmt.Errorf("%s: %w", in.Key, err)
	}
	for _, m := range in.Missing {
		st.Missing = append(st.Missing, scheduler.Missing{Need: m.Need, Why: m.Why})
	}
	for _, f := range in.Fields {
		st.Fields = append(st.Fields, scheduler.FieldError{Field: f.Field, Error: f.Error})
	}
	if in.NextTry != nil {
		st.NextTry = in.NextTry.AsTime()
	}
	if in.Since != nil {
		st.Since = in.Since.AsTime()
	}
	if st.Desired, err = object(kind, in.Desired); err != nil {
		return st, err
	}
	if st.Actual, err = object(kind, in.Actual); err != nil {
		return st, err
	}
	if in.Metadata != nil {
		st.Meta = json.RawMessage(apiv1.JSON(in.Metadata))
	}
	for _, d := range in.Derived {
		sub, err := status(d)
		if err != nil {
			return st, err
		}
		st.Derived = append(st.Derived, sub)
	}
	return st, nil
}

func state(name string) (scheduler.State, error) {
	for s := scheduler.Absent; s <= scheduler.Paused; s++ {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("unknown state %q", name)
}

func object(kind string, v *structpb.Value) (any, error) {
	if v == nil {
		return nil, nil
	}
	msg, err := models.DecodeKind(kind, apiv1.JSON(v))
	if err != nil {
		return nil, err
	}
	return msg, nil
}
