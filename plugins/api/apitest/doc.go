// Package apitest is an agent in memory for tests of the API and its clients: a
// store, a scheduler that does at once what the store asks, and a server in
// front of both.
//
// Nothing happens by itself: a key becomes configured when it is written,
// unless [Engine.Becomes] says otherwise, and stays busy while [Engine.Hold]
// holds it. Time stands still.
package apitest
