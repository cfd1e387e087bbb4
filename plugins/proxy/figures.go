package proxy

import (
	"context"
	"sync"

	"github.com/plumb-net/plumb/descriptors/kernel"
)

// asked is how many processes are asked at a time.
const asked = 16

// Figures are what all processes that are known have done; see the port.
func (p *Proxies) Figures(ctx context.Context) map[string]kernel.ProxyFigures {
	p.mu.Lock()
	var processes []kernel.ProxyProcess
	for _, h := range p.held {
		processes = append(processes, h.ProxyProcess)
	}
	p.mu.Unlock()
	var mu sync.Mutex
	all := map[string]kernel.ProxyFigures{}
	next := make(chan kernel.ProxyProcess)
	var askers sync.WaitGroup
	for range min(asked, len(processes)) {
		askers.Go(func() {
			for process := range next {
				if a, err := ask(ctx, process, request{}); err == nil {
					mu.Lock()
					all[process.Mark] = a.State.Figures
					mu.Unlock()
				}
			}
		})
	}
	for _, process := range processes {
		next <- process
	}
	close(next)
	askers.Wait()
	return all
}
