package models

import (
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// EncodeValue and DecodeValue are the codec of all kinds of this package, for
// values that outlive the process. Fields that this version does not know are
// left out.
func EncodeValue[V proto.Message](v V) ([]byte, error) { return Encode(v), nil }

// DecodeValue is the reverse of [EncodeValue].
func DecodeValue[V proto.Message](b []byte) (V, error) {
	var none V
	v := none.ProtoReflect().New().Interface().(V)
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, v); err != nil {
		return none, err
	}
	return v, nil
}
