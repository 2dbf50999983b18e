// Package manifest has the tests of what config/ renders: that its objects are ones of Kubernetes, name each other rightly, and are the
// same from kustomize and from the Helm chart.
package manifest
