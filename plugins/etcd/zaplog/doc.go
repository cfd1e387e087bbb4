// Package zaplog lets what etcd says through zap come out of slog.
package zaplog
