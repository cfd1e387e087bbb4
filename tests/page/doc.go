// Package page tests the page for browsers as people use it: a real agent, agentctl ui, and
// Chromium without a screen. What the page shows is compared with what the API says.
package page
