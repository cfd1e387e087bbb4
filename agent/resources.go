package agent

import (
	"fmt"
	"strconv"
	"time"

	"github.com/plumb-net/plumb/plugins/api"
	"github.com/plumb-net/plumb/plugins/resources"
)

// sampling is how often it is read what containers use; 0 for never.
func (c *Config) sampling() (time.Duration, error) {
	if c.Resources == off {
		return 0, nil
	}
	d, err := time.ParseDuration(c.Resources)
	if err != nil || d < time.Second || d > time.Minute {
		return 0, fmt.Errorf("resources %q: want off, or a time from 1s to 1m", c.Resources)
	}
	return d, nil
}

// maxResourcesDepth bounds how deep cgroups are sampled.
const maxResourcesDepth = 8

func (c *Config) samplingDepth() (int, error) {
	n, err := strconv.Atoi(c.ResourcesDepth)
	if err != nil || n < 0 || n > maxResourcesDepth {
		return 0, fmt.Errorf("resources-depth %q: want a number from 0 to %d", c.ResourcesDepth, maxResourcesDepth)
	}
	return n, nil
}

// wireResources makes the collector of what containers use, if it is not off.
func (a *agent) wireResources() error {
	interval, err := a.config.sampling()
	if err != nil || interval == 0 {
		return err
	}
	depth, err := a.config.samplingDepth()
	if err != nil {
		return err
	}
	a.resources, err = resources.New(a.tracker, interval, depth)
	return err
}

// used is what the API tells of containers; nil if that is not sampled.
func (a *agent) used() api.Resources {
	if a.resources == nil {
		return nil
	}
	return a.resources
}
