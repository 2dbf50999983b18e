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
	"context"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/request"
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

// hasLeft reports whether the namespace of a release in this cluster is not in the release's workspace: it was moved to another one, or it
// was deleted, and somebody made one of its name. Then neither workspace has the release, but who may change those of the whole platform.
func hasLeft(now Placements, label func(string) string, host string) bool {
	namespace := label(LabelNamespace)
	if namespace == "" || now == nil || release.IsElsewhereBy(label, host) {
		return false
	}
	workspace, known := now.Placement(namespace)
	return known && ofWorkspace(workspace) != ofWorkspace(label(LabelWorkspace))
}

// WorkspaceOf returns the workspace that an object with these labels is of.
func WorkspaceOf(labels map[string]string) string { return ofWorkspace(labels[LabelWorkspace]) }

func ofWorkspace(label string) string {
	if label == "" {
		return SystemWorkspace
	}
	return label
}

// sight is what a request sees.
type sight struct {
	// workspace and namespace are those of the path, and host is the name of this cluster.
	workspace, namespace, host string
	// now has the workspaces of namespaces; nil for what labels say.
	now Placements
	// all is whether the caller sees every workspace; otherwise workspaces and namespaces are the ones that they see, sorted.
	all                    bool
	workspaces, namespaces []string
	// elsewhere is whether the caller sees what is in other clusters, of all workspaces; otherwise elsewhereIn are the ones of which they do,
	// sorted. They are what all and workspaces are, unless the path names a namespace: a right there is one in this cluster.
	elsewhere   bool
	elsewhereIn []string
}

// has reports whether the object with these labels is seen; public is whether everybody who may ask sees it.
func (s *sight) has(label func(string) string, public bool) bool {
	workspace, namespace := ofWorkspace(label(LabelWorkspace)), label(LabelNamespace)
	if s.workspace != "" && workspace != s.workspace && workspace != SystemWorkspace || s.namespace != "" && namespace != s.namespace {
		return false
	}
	if release.IsElsewhereBy(label, s.host) {
		_, in := slices.BinarySearch(s.elsewhereIn, workspace)
		return in || s.elsewhere
	}
	left := hasLeft(s.now, label, s.host)
	if left && s.names() {
		return false
	}
	if s.all || public {
		return true
	}
	if left {
		return false
	}
	_, in := slices.BinarySearch(s.workspaces, workspace)
	if !in && namespace != "" {
		_, in = slices.BinarySearch(s.namespaces, namespace)
	}
	return in
}

// changes reports whether a request with this path may change the object with these labels, if it may change any.
func (s *sight) changes(workspace, namespace string) bool {
	return (s.workspace == "" || ofWorkspace(workspace) == s.workspace) && (s.namespace == "" || namespace == s.namespace)
}

// names reports whether the path names a workspace or a namespace, so that the right to the request may be one there alone.
func (s *sight) names() bool { return s.workspace != "" || s.namespace != "" }

// by returns a function that returns labels.
func by(labels map[string]string) func(string) string {
	return func(key string) string { return labels[key] }
}

// path returns what the path of a request names, and nothing else.
func path(r *restful.Request) sight {
	return sight{workspace: r.PathParameter("workspace"), namespace: r.PathParameter("namespace")}
}

// sight returns what a request for objects sees. Roles of existing installations let everybody read applications in every workspace, so the
// right alone does not say whose are seen: the caller has to be in the workspace, too, or be one who may change the objects of all.
func (s *Store) sight(r *restful.Request) (*sight, error) {
	out, err := s.sightHere(r)
	if err != nil {
		return nil, err
	}
	out.now = s.Namespaces
	if out.host = s.Host; out.namespace == "" || s.Host == "" {
		out.elsewhere, out.elsewhereIn = out.all, out.workspaces
		return out, nil
	}
	i := request.InfoFrom(r.Request.Context())
	d, err := s.ask(r.Request.Context(), request.ListOf(i.APIGroup, i.APIVersion, i.Resource, ""))
	if err != nil {
		return nil, err
	}
	if out.elsewhere = d.Allowed(); !out.elsewhere && d.PartialList() != nil {
		out.elsewhereIn = d.PartialList().Workspaces
	}
	return out, nil
}

func (s *Store) sightHere(r *restful.Request) (*sight, error) {
	ctx, out := r.Request.Context(), path(r)
	if p := authz.DecisionFrom(ctx).PartialList(); p != nil {
		out.workspaces, out.namespaces = p.Workspaces, p.Namespaces
		return &out, nil
	}
	i := request.InfoFrom(ctx)
	change := request.ListOf(i.APIGroup, i.APIVersion, i.Resource, "")
	change.Verb, change.Subresource = "update", i.Subresource
	d, err := s.ask(ctx, change)
	if err != nil {
		return nil, err
	}
	if out.all = d.Allowed(); out.all {
		return &out, nil
	}
	if d, err = s.ask(ctx, request.ListOf(tenantGroup, tenantVersion, "workspaces", "")); err != nil {
		return nil, err
	}
	if out.all = d.Allowed(); out.all {
		return &out, nil
	}
	if p := d.PartialList(); p != nil {
		out.workspaces = p.Workspaces
	}
	if out.namespace != "" {
		one := request.ListOf(tenantGroup, tenantVersion, "namespaces", "")
		one.Verb, one.Name, one.Namespace, one.Path = "get", out.namespace, out.namespace, one.Path+"/"+out.namespace
		if d, err = s.ask(ctx, one.As(schema.GroupResource{Group: tenantGroup, Resource: "namespaces"})); err != nil {
			return nil, err
		}
		if d.Allowed() {
			out.namespaces = []string{out.namespace}
		}
	}
	return &out, nil
}

// Reaches reports whether the right to a request, whose path names a namespace of this cluster, holds in a workspace too, wherever that is:
// by a role in the workspace, or on the platform. A path that names none is authorized for what it names.
func (s *Store) Reaches(r *restful.Request, workspace string) (bool, error) {
	i := request.InfoFrom(r.Request.Context())
	if i.Namespace == "" {
		return true, nil
	}
	same := *i
	same.Workspace, same.Namespace = ofWorkspace(workspace), ""
	same.Path = "/kapis/" + i.APIGroup + "/" + i.APIVersion + "/workspaces/" + same.Workspace + "/" + i.Resource
	for _, segment := range []string{i.Name, i.Subresource} {
		if segment != "" {
			same.Path += "/" + segment
		}
	}
	d, err := s.ask(r.Request.Context(), same.As(schema.GroupResource{Group: i.APIGroup, Resource: i.Resource}))
	return d.Allowed(), err
}

// MayOnPlatform reports whether the caller has the right to a request, whose path may name a workspace, on the platform.
func (s *Store) MayOnPlatform(r *restful.Request) (bool, error) {
	i := request.InfoFrom(r.Request.Context())
	if i.Workspace == "" && i.Namespace == "" {
		return authz.DecisionFrom(r.Request.Context()).Allowed(), nil
	}
	same := *i
	same.Workspace, same.Namespace = "", ""
	same.Path = request.ListOf(i.APIGroup, i.APIVersion, i.Resource, "").Path
	for _, segment := range []string{i.Name, i.Subresource} {
		if segment != "" {
			same.Path += "/" + segment
		}
	}
	d, err := s.ask(r.Request.Context(), same.As(schema.GroupResource{Group: i.APIGroup, Resource: i.Resource}))
	return d.Allowed(), err
}

func (s *Store) ask(ctx context.Context, i *request.Info) (authz.Decision, error) {
	return s.AsCaller.May.Authorize(ctx, request.UserFrom(ctx), i)
}

// gvr returns a kind of the store.
func gvr(plural string) schema.GroupVersionResource {
	return v2.SchemeGroupVersion.WithResource(plural)
}

// Sees reports whether a request sees what is of a workspace and is not public.
func (s *Store) Sees(r *restful.Request, workspace string) (bool, error) {
	seen, err := s.sight(r)
	if err != nil {
		return false, err
	}
	return seen.has(by(map[string]string{LabelWorkspace: workspace}), false), nil
}

// Changes reports whether the path of a request, which was authorized, is one for changes of what is of a workspace.
func Changes(r *restful.Request, workspace string) bool {
	at := path(r)
	return at.changes(workspace, at.namespace)
}

// Target returns the workspace that what a request makes is of.
func Target(r *restful.Request) string { return ofWorkspace(r.PathParameter("workspace")) }
