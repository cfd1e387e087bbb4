package docker

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	client "github.com/fsouza/go-dockerclient"

	"github.com/plumb-net/plumb/plugins/container"
)

// List returns all containers, also those that do not run.
func (e *Engine) List(ctx context.Context) ([]container.Summary, error) {
	c, err := e.client(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	found, err := c.ListContainers(client.ListContainersOptions{All: true, Context: ctx})
	if err != nil {
		return nil, e.explain(ctx, err)
	}
	all := make([]container.Summary, len(found))
	for i, f := range found {
		all[i] = summary(f, began)
	}
	return all, nil
}

// summary makes what the tracker compares of a line of the list, which was
// asked for at a time.
func summary(f client.APIContainers, asked time.Time) container.Summary {
	code, since := status(f.Status)
	s := container.Summary{
		ID: f.ID, Name: listedName(f.Names),
		Running: f.State == "running" || f.State == "paused",
		State:   f.State,
		Digest:  digest(f.State, code, networkAddresses(f.Networks.Networks)),
	}
	if since > 0 {
		s.Since = asked.Add(-since)
	}
	return s
}

// onTheirWay are states in which a list does not tell all that changes: a start
// that failed leaves its code behind, and an engine that was killed amid a start or
// a removal tells what it had written down before.
var onTheirWay = map[string]bool{"created": true, "restarting": true, "removing": true}

// digest is what lists and inspects are compared by; "" for containers that are to
// be inspected with every list.
func digest(state, code string, addresses []string) string {
	if onTheirWay[state] {
		return ""
	}
	return strings.Join(append(slices.Clone(addresses), state, code), " ")
}

// networkAddresses are those that Docker gave a container, sorted.
func networkAddresses(networks map[string]client.ContainerNetwork) []string {
	var all []string
	add := func(address string, length int) {
		if address != "" {
			all = append(all, fmt.Sprintf("%s/%d", address, length))
		}
	}
	for _, net := range networks {
		add(net.IPAddress, net.IPPrefixLen)
		add(net.GlobalIPv6Address, net.GlobalIPv6PrefixLen)
	}
	slices.Sort(all)
	return all
}

// listedName is the container's own name: links of others contain a slash.
func listedName(names []string) string {
	for _, n := range names {
		if n = strings.TrimPrefix(n, "/"); !strings.Contains(n, "/") {
			return n
		}
	}
	return ""
}

// statusForm is what a list says of a state: "Up 3 minutes (healthy)",
// "Exited (137) About an hour ago".
var statusForm = regexp.MustCompile(`^\w+ (?:\((-?\d+)\) )?(Less than a|About an?|\d+) (second|minute|hour|day|week|month|year)s?\b`)

var units = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour, "day": 24 * time.Hour,
	"week": 7 * 24 * time.Hour, "month": 30 * 24 * time.Hour, "year": 365 * 24 * time.Hour,
}

// status reads the exit code and how long ago, at most, the state began; 0 if
// that is not told.
func status(text string) (code string, atMost time.Duration) {
	m := statusForm.FindStringSubmatch(text)
	if m == nil {
		return "", 0
	}
	n, err := strconv.Atoi(m[2])
	if err != nil {
		n = 1
	}
	// Docker cuts off, but hours it rounds.
	return m[1], time.Duration(n+1) * units[m[3]]
}
