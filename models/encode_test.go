package models_test

import (
	"strings"
	"testing"

	"github.com/plumb-net/plumb/models"
	"google.golang.org/protobuf/proto"
)

func TestEncodeIsCanonical(t *testing.T) {
	off := false
	for _, c := range []struct {
		msg  proto.Message
		want string
	}{
		{&models.NetNS{}, `{}`},
		{&models.Interface{Addresses: []string{"10.0.0.1/24"}, Enabled: &off, Link: &models.Interface_Veth{Veth: &models.Veth{Peer: "b"}}},
			`{"enabled":false,"addresses":["10.0.0.1/24"],"veth":{"peer":"b"}}`},
		{&models.Container{Netns: 1 << 63, Labels: map[string]string{"b": "<&>", "a": "  x"}},
			`{"netns":"9223372036854775808","labels":{"a":"  x","b":"<&>"}}`},
	} {
		if got := string(models.Encode(c.msg)); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

func TestDigest(t *testing.T) {
	a := models.Digest(&models.Route{Interface: "a"})
	if b := models.Digest(&models.Route{Interface: "a"}); a != b || len(a) != 32 {
		t.Errorf("equal values have digests %s and %s", a, b)
	}
	if b := models.Digest(&models.Route{Interface: "b"}); a == b {
		t.Errorf("different values have one digest, %s", a)
	}
}

func TestDecodeBounds(t *testing.T) {
	at := func(n int) string {
		const head, tail = `{"dummy":{},"host_name":"`, `"}`
		return head + strings.Repeat("a", n-len(head)-len(tail)) + tail
	}
	for _, c := range []struct{ name, text, want string }{
		{"too large", at(models.MaxValue + 1), "the value has 262145 bytes; at most 262144 (256 KiB) are allowed"},
		{"as large as may be", at(models.MaxValue), "host_name: "},
		{"empty", "", "the value is empty; write at least {}"},
		{"blank", " \n\t", "the value is empty; write at least {}"},
		{"not UTF-8", "{\"host_name\":\"\xff\"}", "not valid JSON at line 1:17: the string is not UTF-8"},
		{"control character", "{\"host_name\":\"a\nb\"}", `not valid JSON at line 1:16: control character '\n' in a string; write it as an escape`},
		{"many errors", "{" + strings.Repeat(`"x":1,`, 50) + `"y":1}`, "and 31 more errors"},
	} {
		_, err := models.Decode("interface/a", []byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %.200v, want %s", c.name, err, c.want)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	data := []byte(`{"namespace":{"microservice":"web"},"host_name":"eth1","mtu":1400,"addresses":["10.61.0.1/24","fd61::1/64"],"veth":{"peer":"web-host"}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := models.Decode("interface/web", data); err != nil {
			b.Fatal(err)
		}
	}
}
