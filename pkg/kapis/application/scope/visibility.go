package scope

import (
	"context"
	"slices"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/appstore/release"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

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
