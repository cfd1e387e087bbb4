package install

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestScraped: what docs/observability.md says to run lets Prometheus read the metrics, and
// nothing else of the agent. While that is down it hears so.
func TestScraped(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.install(deb(t, "0.1.0~test1"))
	doc, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := regexp.MustCompile(`(?m)^    cd .*\n(?:    .*\n)+`).FindString(string(doc))
	m.run("set -e\n" + steps)
	const scrape = "printf 'GET %s HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' | busybox nc -w 5 127.0.0.1 9437 | "
	ask := func(path, then string) string { return strings.Replace(scrape, "%s", path, 1) + then }
	m.expect(ask("/metrics", "head -1"), "HTTP/1.0 200 OK")
	m.expect(ask("/metrics", "grep -c ^plumb_build_info"), "1")
	m.expect(ask("/plumb.v1.Plumb/List", "grep -c ^plumb_build_info"), "1")
	m.run("systemctl stop plumb-agent")
	m.expect(ask("/metrics", "head -1"), "HTTP/1.0 503 Service Unavailable")
	m.run("systemctl start plumb-agent")
	m.expect(ask("/metrics", "head -1"), "HTTP/1.0 200 OK")
}
