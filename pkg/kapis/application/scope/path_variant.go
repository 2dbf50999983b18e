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

import restful "github.com/emicklei/go-restful/v3"

const (
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
