// Package nodetest tests the real node as a user works with it: pods run, answer and end, and nothing is left on the machine.
package nodetest
