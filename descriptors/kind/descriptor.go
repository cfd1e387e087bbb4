package kind

import (
	"google.golang.org/protobuf/proto"

	"github.com/plumb-net/plumb/models"
	"github.com/plumb-net/plumb/scheduler"
)

// Of begins the descriptor of a kind: what follows from its name and the type of its
// values.
func Of[V proto.Message, M any](name string) scheduler.Descriptor[V, M] {
	k := Observed[V, M](name)
	k.Validate = Validate[V]
	return k
}

// Observed is [Of] for a kind that nobody can ask for: its objects come and go by
// themselves, and its values need no validation.
func Observed[V proto.Message, M any](name string) scheduler.Descriptor[V, M] {
	return scheduler.Descriptor[V, M]{
		Name: name, Prefix: scheduler.Key(name + "/"),
		Encode: models.EncodeValue[V], Decode: models.DecodeValue[V],
		// The scheduler's own comparison would read the internal state of a message, which whoever
		// encodes it writes at the same time.
		Equal: func(_ scheduler.Key, a, b V) bool { return proto.Equal(a, b) },
	}
}
