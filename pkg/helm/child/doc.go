// Package child is the process that a helm.Executor starts: it reads one job from its standard input, does it with the Helm SDK, and
// writes events and the result to its standard output.
package child
