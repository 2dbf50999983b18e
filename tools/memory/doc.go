// Package memory measures what the objects of each kind take in the memory of ks-apiserver, and writes docs/memory.md. It consists of
// a test in a package of its own, since the race detector would be measured too.
package memory
