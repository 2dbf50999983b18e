// Package scope is what the routes of the application store share: which variants their paths have, which objects a request may see and
// change, and how objects are read from the caches and written as the caller.
//
// An object is of the workspace that its label kubesphere.io/workspace names, and of the system's without one. A request whose path names
// a workspace changes objects of that workspace only, and sees those and what is public. Without a workspace in the path, callers with the
// right on the platform see everything, and others the workspaces of their own and what is public. What a request may not see is not found.
//
// The right to an application is one of this project's; at kube-apiserver the caller has none. So writes are sent in a group that stands
// for that right, after the object was compared with the path, and a policy there bounds what the group may write
// (config/rbac/app-store.yaml).
package scope

import (
	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/resource"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

const (
	// SystemWorkspace is the workspace of objects that are of no other.
	SystemWorkspace = tenantv1beta1.SystemWorkspace
	// LabelWorkspace is the label of the workspace that an object is of.
	LabelWorkspace = plan.WorkspaceLabel
	// LabelNamespace is the label of the namespace that a release is in.
	LabelNamespace = "kubesphere.io/namespace"

	tenantGroup, tenantVersion = "tenant.kubesphere.io", "v1beta1"
)

// Variant is a form of a route's path.
type Variant struct {
	// Path is what comes before the route's own, and ID a part of the names of operations.
	Path, ID string
	// parameter is the path parameter, empty for none.
	parameter string
}

// The variants that routes of the store have.
var (
	Platform    = Variant{}
	InWorkspace = Variant{Path: "/workspaces/{workspace}", ID: "Workspace", parameter: "workspace"}
	InNamespace = Variant{Path: "/namespaces/{namespace}", ID: "Namespace", parameter: "namespace"}
)

// Document documents the path parameter of a variant.
func (v Variant) Document(ws *restful.WebService, b *restful.RouteBuilder) *restful.RouteBuilder {
	if v.parameter != "" {
		b.Param(ws.PathParameter(v.parameter, "name of the "+v.parameter))
	}
	return b
}

// Store reads and writes the objects of the store for routes.
type Store struct {
	// Resources answers reads from the caches.
	Resources *resource.Service
	// AsCaller writes as the caller, and decides what else the caller may do.
	AsCaller caller.Client
	// Host is the name of this cluster. What is in another one is in no namespace of this one, whatever name that has.
	Host string
	// Namespaces says which workspaces namespaces of this cluster are in now; nil for what the labels of releases say.
	Namespaces Placements
}

// Placements says in which workspace each namespace is. rbac.Index is one.
type Placements interface {
	// Placement returns the workspace of a namespace, "" for none; known is false where there is no such namespace.
	Placement(namespace string) (workspace string, known bool)
	// Placements returns a number that is another one whenever a Placement has changed.
	Placements() uint64
}

// WorkspaceOf returns the workspace that an object with these labels is of.
func WorkspaceOf(labels map[string]string) string { return ofWorkspace(labels[LabelWorkspace]) }

func ofWorkspace(label string) string {
	if label == "" {
		return SystemWorkspace
	}
	return label
}

// gvr returns a kind of the store.
func gvr(plural string) schema.GroupVersionResource {
	return v2.SchemeGroupVersion.WithResource(plural)
}

// Target returns the workspace that what a request makes is of.
func Target(r *restful.Request) string { return ofWorkspace(r.PathParameter("workspace")) }
