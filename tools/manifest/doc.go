// Package manifest tests what config/ renders, and scripts of hack/: that objects are valid in Kubernetes, that their references to each other are
// right, and that kustomize and the Helm chart render the same.
package manifest
