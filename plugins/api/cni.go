package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/plugins/cni"
	"github.com/plumb-net/plumb/plugins/cni/wire"
)

// CNI implements the service.
func (s *Server) CNI(ctx context.Context, _ *apiv1.CNIRequest) (*apiv1.CNIResponse, error) {
	if s.Config.CNI == nil {
		return nil, errNoCNI()
	}
	pending := map[cni.Key]cni.Pending{}
	for _, p := range s.Config.CNI.Pending() {
		pending[p.Key] = p
	}
	out := &apiv1.CNIResponse{}
	cuts := s.Config.CNI.Cuts()
	for _, a := range s.Config.CNI.Attachments() {
		told := attachment(a, pending[a.Key])
		if told.Reason == "" {
			told.Reason = cuts[a.Key.Network]
		}
		out.Attachments = append(out.Attachments, told)
	}
	forgotten, err := s.Config.CNI.Forgotten(ctx)
	if err != nil {
		return nil, fail(err)
	}
	for _, f := range forgotten {
		out.Attachments = append(out.Attachments, forgottenAttachment(f))
	}
	left, bad, err := s.Config.CNI.Left()
	if err != nil {
		return nil, err
	}
	for _, l := range append(left, bad...) {
		out.Queue = append(out.Queue, leftCall(l))
	}
	return out, nil
}

func errNoCNI() error {
	return connect.NewError(connect.CodeUnavailable, errors.New("this agent does not serve CNI"))
}

// AdoptAttachment implements the service.
func (s *Server) AdoptAttachment(ctx context.Context, r *apiv1.AttachmentRequest) (*apiv1.AttachmentResponse, error) {
	if s.Config.CNI == nil {
		return nil, errNoCNI()
	}
	a, err := s.Config.CNI.Adopt(ctx, r.Id)
	if err != nil {
		return nil, attachmentError(err)
	}
	return &apiv1.AttachmentResponse{Attachment: attachment(a, cni.Pending{})}, nil
}

// ForgetAttachment implements the service.
func (s *Server) ForgetAttachment(ctx context.Context, r *apiv1.AttachmentRequest) (*apiv1.AttachmentResponse, error) {
	if s.Config.CNI == nil {
		return nil, errNoCNI()
	}
	f, left, err := s.Config.CNI.Forget(ctx, r.Id)
	if err != nil {
		return nil, attachmentError(err)
	}
	return &apiv1.AttachmentResponse{Attachment: forgottenAttachment(f), Left: left}, nil
}

func attachmentError(err error) error {
	switch {
	case errors.Is(err, cni.ErrNoSuch):
		return connect.NewError(connect.CodeNotFound, err)
	case errors.Is(err, cni.ErrNotAsFound):
		return connect.NewError(connect.CodeFailedPrecondition, err)
	}
	return fail(err)
}

func forgottenAttachment(f cni.Forgotten) *apiv1.Attachment {
	out := &apiv1.Attachment{
		Network: f.Key.Network, ContainerId: f.Key.ContainerID, Ifname: f.Key.IfName, State: "forgotten",
		Reason: "it has no record, and stays: agentctl cni adopt|forget " + cmp.Or(f.Key.ContainerID, f.Digest),
		Netns:  f.Netns, Inode: f.Inode, Addresses: f.Addresses, Digest: f.Digest,
	}
	for _, k := range f.Keys {
		out.Keys = append(out.Keys, string(k))
	}
	return out
}

func attachment(a cni.Attachment, p cni.Pending) *apiv1.Attachment {
	out := &apiv1.Attachment{
		Network: a.Key.Network, ContainerId: a.Key.ContainerID, Ifname: a.Key.IfName, State: string(a.Phase), Reason: p.Waits,
		Netns: a.Netns, Inode: a.Inode, Since: seconds(a.Since), Keys: a.Wants,
	}
	if a.Result != nil {
		for _, ip := range a.Result.IPs {
			out.Addresses = append(out.Addresses, ip.Address)
		}
	}
	return out
}

func leftCall(l wire.Left) *apiv1.LeftCall {
	var config struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(l.Config, &config) // it may be what cannot be read
	return &apiv1.LeftCall{
		Network: config.Name, ContainerId: l.ContainerID, Ifname: l.IfName,
		Since: seconds(l.Queued), Tries: uint32(l.Tries), Error: text(l.Err), File: l.File,
	}
}

// seconds is a unix time; 0 is none.
func seconds(at int64) *timestamppb.Timestamp {
	if at == 0 {
		return nil
	}
	return timestamppb.New(time.Unix(at, 0))
}
