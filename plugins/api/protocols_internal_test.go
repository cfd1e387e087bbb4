package api

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/plumb-net/plumb/plugins/access"
	"github.com/plumb-net/plumb/plugins/access/accesstest"
)

// TestDenialsByProtocol: whichever protocol a request speaks, a call without a sufficient role does
// not reach the handler, and the answer carries the code where that protocol has it: gRPC in its
// trailers with HTTP status 200, Connect in the body.
func TestDenialsByProtocol(t *testing.T) {
	d := newDoor(t)
	c := d.client(accesstest.Pair{})
	callers := []struct {
		role  access.Role
		token string
	}{{access.Nobody, ""}, {access.Viewer, d.token("v", access.Viewer)}, {access.Operator, d.token("o", access.Operator)}, {access.Admin, d.token("a", access.Admin)}}
	protocols := map[string]func(http.Header, []byte) string{ // return the code
		"application/json":                  jsonCode,
		"application/proto":                 jsonCode,
		"application/connect+json":          framedCode,
		"application/connect+proto":         framedCode,
		"application/grpc":                  grpcCode,
		"application/grpc+proto":            grpcCode,
		"application/grpc-web+proto":        grpcCode,
		"application/grpc-web-text":         nil, // not spoken
		"application/x-www-form-urlencoded": nil,
		"":                                  nil,
	}
	roles := needed()
	for typ, codeOf := range protocols {
		for path := range everyCall() {
			for _, who := range callers {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, d.url+path, strings.NewReader(""))
				if err != nil {
					t.Fatal(err)
				}
				if typ != "" {
					r.Header.Set("Content-Type", typ)
				}
				r.Header.Set("TE", "trailers")
				if who.token != "" {
					r.Header.Set("Authorization", "Bearer "+who.token)
				}
				resp, err := c.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				header := resp.Header.Clone()
				for k, v := range resp.Trailer {
					header[k] = v
				}
				want := ""
				switch {
				case who.role == access.Nobody:
					want = "unauthenticated"
				case who.role < roles[path]:
					want = "permission_denied"
				}
				at := fmt.Sprintf("%s at %s by %q", who.role, path, typ)
				if got := d.through(); (len(got) == 0) != (want != "") {
					t.Errorf("%s: the handler got %v", at, got)
				}
				if want == "" {
					continue
				}
				if codeOf == nil {
					if resp.StatusCode < 400 {
						t.Errorf("%s: HTTP status %d", at, resp.StatusCode)
					}
				} else if code := codeOf(header, body); code != want {
					t.Errorf("%s: code %q, want %s (HTTP status %d, %v, %q)", at, code, want, resp.StatusCode, header, body)
				}
			}
		}
	}
}

func jsonCode(_ http.Header, body []byte) string {
	for _, code := range []string{"unauthenticated", "permission_denied"} {
		if bytes.Contains(body, []byte(`"code":"`+code+`"`)) {
			return code
		}
	}
	return ""
}

// framedCode reads the code of a stream, which ends with a message that has flag 2.
func framedCode(_ http.Header, body []byte) string {
	if len(body) < 5 || body[0] != 2 {
		return ""
	}
	return jsonCode(nil, body[5:])
}

func grpcCode(header http.Header, body []byte) string {
	status := header.Get("Grpc-Status")
	if at := bytes.Index(bytes.ToLower(body), []byte("grpc-status: ")); status == "" && at >= 0 { // gRPC-Web has trailers in the body
		status, _, _ = strings.Cut(string(body[at+len("grpc-status: "):]), "\r\n")
	}
	return map[string]string{"7": "permission_denied", "16": "unauthenticated"}[status]
}
