// Package observe tests what operators watch the agent with: the alerts and the dashboard in
// deploy, with Prometheus' own tool, and how Prometheus comes to the metrics.
package observe
