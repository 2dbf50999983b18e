// Package wire has what requests and answers of iam.kubesphere.io have in common: the group, bodies, answers and errors.
package wire

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The group and the versions of the routes.
const (
	Group   = "iam.kubesphere.io"
	Version = "v1beta1"
	// OlderVersion is the version of older clients: the same routes, with some names of its own.
	OlderVersion = "v1alpha2"
)

// Resource returns a resource of the group, by its plural.
func Resource(plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: plural}
}
