// Package cluster knows the member clusters of a fleet, and the links to them.
package cluster
