// Package e2e has the end-to-end tests: the product as `make run` starts it, over a real control
// plane, used by HTTP, WebSocket and kubectl.
package e2e
