package kind

import (
	"errors"

	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Validate refuses what [models.Validate] refuses, as the scheduler says it.
// It is the Validate of every kind whose rules need no more than the value.
func Validate[V proto.Message](k scheduler.Key, v V) error {
	err := models.Validate(string(k), v)
	var wrong *models.InvalidError
	if !errors.As(err, &wrong) {
		return err
	}
	invalid := &scheduler.InvalidError{Fields: make([]scheduler.FieldError, len(wrong.Fields))}
	for i, f := range wrong.Fields {
		invalid.Fields[i] = scheduler.FieldError(f)
	}
	return invalid
}
