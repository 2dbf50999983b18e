//go:build !race

package helm

// MemoryScale is how much more memory a child may have; it is larger in programs with the race detector.
const MemoryScale = 1
