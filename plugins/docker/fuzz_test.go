package docker

import (
	"encoding/json"
	"testing"
	"time"

	client "github.com/fsouza/go-dockerclient"

	"github.com/plumb-net/plumb/plugins/container"
)

// FuzzEvent: whatever an engine sends as an event, a hint names a container or is none,
// and only evidence has a time.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{
		`{"Type":"container","Action":"die","Actor":{"ID":"c","Attributes":{"exitCode":"1","name":"web","image":"bb"}},"timeNano":1700000000000000001}`,
		`{"Type":"network","Action":"connect","Actor":{"ID":"net","Attributes":{"container":"a"}}}`,
		`{"Type":"container","Action":"exec_create: sh -c die","Actor":{"ID":"x"}}`,
		`{"Type":"container","Action":"die","Actor":{"Attributes":{"exitCode":"99999999999999999999"}},"timeNano":-1}`,
		`{"Actor":null}`, `[]`, `{"timeNano":1e30}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var ev event
		if json.Unmarshal(text, &ev) != nil {
			return
		}
		if h := ev.hint(); h.Says == "" && !h.At.IsZero() || h.ID == "" && ev.Type != "container" && ev.Type != "network" && h != (container.Hint{}) {
			t.Errorf("%s: %+v", text, h)
		}
	})
}

// FuzzInspect: whatever an engine answers to an inspect and a list, what does not run has
// no process, and nothing else breaks.
func FuzzInspect(f *testing.F) {
	for _, s := range []string{
		`{"Id":"a","Name":"/web","State":{"Status":"running","Running":true,"Pid":7,"StartedAt":"2026-01-02T03:04:05.6Z"},"Config":{"Env":["MICROSERVICE_LABEL=web"]},"HostConfig":{"NetworkMode":"container:b"},"NetworkSettings":{"Networks":{"bridge":{"IPAddress":"10.0.0.2","IPPrefixLen":24}}}}`,
		`{"Id":"a","State":{"Status":"exited","OOMKilled":true,"ExitCode":137,"FinishedAt":"2026-01-02T03:04:05.6Z"}}`,
		`{"State":{"Running":true,"Restarting":true,"Pid":-1}}`, `{"NetworkSettings":null,"Config":null}`, `{}`,
	} {
		f.Add([]byte(s), "Exited (137) About an hour ago")
	}
	f.Fuzz(func(t *testing.T, text []byte, state string) {
		var found client.Container
		if json.Unmarshal(text, &found) != nil {
			return
		}
		if c := translate(&found); c.Running != (c.Pid > 0) || c.Reason == container.OutOfMemory && found.State.Error != c.Reason {
			t.Errorf("%s: %+v", text, c)
		}
		if s := summary(client.APIContainers{State: found.State.Status, Status: state}, time.Unix(0, 0)); s.Since.After(time.Unix(0, 0)) {
			t.Errorf("%q: %+v", state, s)
		}
	})
}
