// Package diagnosis says what to do about the root of a [scheduler.Cause].
//
//	scheduler ──root──┐
//	             ├─► Diagnose ─► what is the matter, and what to do, in a line each
//	the agent ──facts─┘
//
// The scheduler knows keys and states and nothing of Linux or containers. Here stands
// what people know of these: that a label may be typed wrongly, that a container which
// is missing was killed, that an engine which does not answer says nothing about what
// is there. All functions are pure; whoever calls gathers the facts.
package diagnosis
