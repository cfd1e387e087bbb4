package models

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
)

func TestCodec(t *testing.T) {
	v := &NetNS{}
	b, err := EncodeValue(v)
	if err != nil {
		t.Fatal(err)
	}
	back, err := DecodeValue[*NetNS](b)
	if err != nil || !proto.Equal(v, back) {
		t.Errorf("%s came back as %v, %v", b, back, err)
	}
	i := &Interface{Mtu: 1400, Addresses: []string{"10.0.0.1/24"}}
	b, _ = EncodeValue(i)
	again, err := DecodeValue[*Interface](append(b[:len(b)-1:len(b)-1], `,"of_a_later_version":1}`...))
	if err != nil || !proto.Equal(i, again) {
		t.Errorf("%s came back as %v, %v", b, again, err)
	}
	if b2, _ := EncodeValue(again); !bytes.Equal(b, b2) {
		t.Errorf("%s is encoded as %s", b, b2)
	}
	if _, err := DecodeValue[*Interface]([]byte("{")); err == nil {
		t.Error("half a value was read")
	}
}
