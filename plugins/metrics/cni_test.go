package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/plumb-net/plumb/plugins/cni"
)

// TestCNICalls: calls by command and code, with their time.
func TestCNICalls(t *testing.T) {
	r := prometheus.NewRegistry()
	r.MustRegister(calls{func() []cni.Figure {
		within := make([]uint64, len(cni.Bounds))
		for i := 2; i < len(within); i++ {
			within[i] = 3
		}
		return []cni.Figure{{Command: "ADD", Code: 11, Count: 4, Sum: 1500 * time.Millisecond, Within: within}}
	}})
	page := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`plumb_cni_seconds_bucket{code="11",command="ADD",le="0.01"} 0`, `plumb_cni_seconds_bucket{code="11",command="ADD",le="0.02"} 3`,
		`plumb_cni_seconds_bucket{code="11",command="ADD",le="+Inf"} 4`, `plumb_cni_seconds_sum{code="11",command="ADD"} 1.5`,
		`plumb_cni_seconds_count{code="11",command="ADD"} 4`,
	} {
		if !strings.Contains(page.Body.String(), want) {
			t.Errorf("%s is missing in\n%s", want, page.Body)
		}
	}
}
