package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/api/apitest"
	"github.com/plumb-net/plumb/plugins/api/apiv1"
)

// FuzzCalls: whatever is posted to agent.sock is answered, with JSON and without a panic.
func FuzzCalls(f *testing.F) {
	var calls []string
	methods := apiv1.File_agent_proto.Services().ByName("Agent").Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		if m.IsStreamingServer() || m.IsStreamingClient() {
			continue
		}
		call := string(m.Name())
		calls = append(calls, call)
		f.Add(uint8(len(calls)-1), []byte(`{}`))
	}
	for i, call := range calls {
		for of, body := range map[string]string{
			"Get":    `{"key":"route/r1"}`,
			"Put":    `{"key":"interface/web","value":{"dummy":{},"mtu":1400}}`,
			"Apply":  `{"items":[{"key":"interface/x","text":"{\"dummy\":{}}"},{"key":"netns/y","value":{}}],"dry_run":true,"applyset":"x","prune":true}`,
			"Wait":   `{"keys":["route/r9"],"timeout":"0.01s","for":"settled"}`,
			"Delete": `{"keys":["interface/web","interface/"]}`,
			"Plan":   `{"items":[{"key":"interface/x","delete":true}],"events":["dies microservice/web"]}`,
			"Graph":  `{"around":"interface/web","depth":-1}`,
		} {
			if of == call {
				f.Add(uint8(i), []byte(body))
			}
		}
		f.Add(uint8(i), []byte(`{"key":"\u0000","keys":[""],"at":"9999-12-31T23:59:59Z","since":"-1s","limit":-1}`))
	}
	w := apitest.New()
	if err := w.Script(`{"key":"interface/web","state":"configured"}` + "\n" + `{"key":"route/r1","state":"pending","missing":[{"need":"interface/web","why":"x"}]}`); err != nil {
		f.Fatal(err)
	}
	s, err := api.New(w.Config())
	if err != nil {
		f.Fatal(err)
	}
	handler := s.Handler()
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		call := calls[int(which)%len(calls)]
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // a Wait may be long
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/plumb.api.v1.Agent/"+call, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		a := httptest.NewRecorder()
		handler.ServeHTTP(a, r)
		if a.Code == http.StatusInternalServerError && bytes.Contains(a.Body.Bytes(), []byte("stumbled")) || !json.Valid(a.Body.Bytes()) {
			t.Fatalf("%s %q: %d %s", call, body, a.Code, a.Body)
		}
	})
}
