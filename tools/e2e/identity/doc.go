// Package identity holds the rules of the login, over HTTP, against the real binary and a real control plane.
package identity
