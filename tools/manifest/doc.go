// Package manifest tests what config/ renders: that its objects are valid in Kubernetes, that their references to each other are
// right, and that kustomize and the Helm chart render the same.
package manifest
