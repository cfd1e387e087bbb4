// Package demo tests that the demo and the tour of the README work as they are
// written.
package demo
