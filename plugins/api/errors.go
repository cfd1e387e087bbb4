package api

import (
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
	"github.com/plumb-net/plumb/scheduler"
)

// refuse is the caller's mistake.
func refuse(format string, args ...any) error {
	return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf(format, args...))
}

// notNow is right but cannot be done as things stand.
func notNow(format string, args ...any) error {
	return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf(format, args...))
}

// fail gives an error of the ports the code that clients go by, and says what
// to do next where that is known.
func fail(err error) error {
	var known *connect.Error
	code := connect.CodeInternal
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, models.ErrStoreDown):
		code, err = connect.CodeUnavailable, fmt.Errorf("%w; see `agentctl status`", err)
	case errors.Is(err, models.ErrStoreConflict):
		code, err = connect.CodeAborted, fmt.Errorf("%w again and again; try once more", err)
	case errors.Is(err, scheduler.ErrStopped):
		code, err = connect.CodeUnavailable, errors.New("the agent is stopping")
	case errors.Is(err, scheduler.ErrUnknownKey), errors.Is(err, scheduler.ErrNotPaused):
		code = connect.CodeNotFound
	case errors.As(err, new(*scheduler.HistoryError)):
		code = connect.CodeOutOfRange
	case errors.Is(err, scheduler.ErrTooLarge):
		code = connect.CodeResourceExhausted
	case errors.Is(err, scheduler.ErrBusy):
		code = connect.CodeUnavailable
	case errors.Is(err, scheduler.ErrBaseMoved):
		code = connect.CodeAborted
	case errors.Is(err, context.DeadlineExceeded):
		code = connect.CodeDeadlineExceeded
	case errors.Is(err, context.Canceled):
		code = connect.CodeCanceled
	}
	return connect.NewError(code, err)
}

// invalidItem is a value that models refuse, with the fields as a detail.
type invalidItem struct {
	key, where string
	fields     []models.FieldError
}

func (i invalidItem) String() string {
	text := i.key + ": " + (&models.InvalidError{Fields: i.fields}).Error()
	if i.where != "" {
		return i.where + ": " + text
	}
	return text
}

// refuseValues names every invalid value of a request, so that one look mends
// all. hint says what can be done besides mending.
func refuseValues(items []invalidItem, hint string) error {
	var text string
	if len(items) == 1 {
		text = items[0].String()
	} else {
		text = fmt.Sprintf("%d values are invalid", len(items))
		for _, i := range items {
			text += "\n  " + i.String()
		}
	}
	err := connect.NewError(connect.CodeInvalidArgument, errors.New(text+hint))
	for _, i := range items {
		detail := &apiv1.InvalidValue{Key: i.key, Where: i.where}
		for _, f := range i.fields {
			detail.Fields = append(detail.Fields, &apiv1.FieldError{Field: f.Field, Error: f.Error})
		}
		if d, e := connect.NewErrorDetail(detail); e == nil {
			err.AddDetail(d)
		}
	}
	return err
}

// notFound is what does not exist.
func notFound(format string, args ...any) error {
	return connect.NewError(connect.CodeNotFound, fmt.Errorf(format, args...))
}
