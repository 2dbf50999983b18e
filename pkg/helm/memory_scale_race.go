//go:build race

package helm

// MemoryScale is how much more memory a child may have: the race detector takes several times as much.
const MemoryScale = 8
