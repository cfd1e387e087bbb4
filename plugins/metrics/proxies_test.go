package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// TestProxies: what each proxy has now, and has done.
func TestProxies(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(proxies{func() map[string]kernel.ProxyFigures {
		return map[string]kernel.ProxyFigures{"proxy/web": {Active: 2, Accepted: 9, Refused: 3, Evicted: 4, Failed: 5}}
	}})
	page := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`plumb_proxy_sessions{key="proxy/web"} 2`, `plumb_proxy_accepted_total{key="proxy/web"} 9`, `plumb_proxy_refused_total{key="proxy/web"} 3`,
		`plumb_proxy_evicted_total{key="proxy/web"} 4`, `plumb_proxy_failed_total{key="proxy/web"} 5`,
	} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("%s is missing in\n%s", want, page.Body)
		}
	}
}
