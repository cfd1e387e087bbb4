package models

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Encode writes a value as JSON in its one canonical form: names as in
// models.proto, fields in their order there, no white space, unset fields left
// out. The protobuf encoder varies its white space on purpose, so that is
// taken out here.
func Encode(msg proto.Message) []byte {
	loose, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(msg)
	if err != nil {
		// Only a string that is not UTF-8 does this; no decoder lets one in.
		panic(fmt.Sprintf("models: encode %s: %v", msg.ProtoReflect().Descriptor().Name(), err))
	}
	var out bytes.Buffer
	out.Grow(len(loose))
	if err := json.Compact(&out, loose); err != nil {
		panic(fmt.Sprintf("models: encode %s: %v", msg.ProtoReflect().Descriptor().Name(), err))
	}
	return out.Bytes()
}

// Digest names the content of a value: equal values, equal digests.
func Digest(msg proto.Message) string {
	sum := sha256.Sum256(Encode(msg))
	return hex.EncodeToString(sum[:16])
}
