package request

import (
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/status"
)

// Groups whose resources determine the scope.
const (
	groupIAM       = "iam.kubesphere.io"
	groupTenant    = "tenant.kubesphere.io"
	groupCluster   = "cluster.kubesphere.io"
	groupResources = "resources.kubesphere.io"
)

// Parse returns what r asks for. It never panics, and refuses what is ambiguous: its errors are a metav1.Status of code 400, or 405 for a
// method that the path can't have.
//
// A path under /api and /apis means exactly what it means to kube-apiserver; the object of a workspace is the workspace's own there as
// well. Under /kapi and /kapis a workspace may precede the rest: .../workspaces/{workspace}/{resource}/{name}. No selector makes a
// request a workspace's own: a label says which workspace an object belongs to, but how a server after this one applies a selector is not
// known here.
func Parse(r *http.Request) (*Info, error) {
	path, err := checkTarget(r.URL)
	if err != nil {
		return nil, err
	}
	query, err := scanQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	if !isMethod(r.Method) {
		return nil, methodNotAllowed(r.Method, path)
	}
	i := &Info{Upgrade: IsUpgrade(r.Header)}
	if i.Cluster, path, err = cutCluster(path); err != nil {
		return nil, err
	}
	i.Path = path
	if len(path) > 1 {
		i.Path = strings.TrimSuffix(path, "/")
	}
	if err := i.parsePath(r.Method); err != nil {
		return nil, err
	}
	if i.IsProxied() {
		i.Path = path // to the target, a trailing slash may matter
	}
	if err := i.readQuery(&query, r.URL.RawQuery); err != nil {
		return nil, err
	}
	i.nameWorkspace()
	i.Scope = i.scope()
	return i, nil
}

// nameWorkspace makes a request for the object of a workspace the workspace's own at kube-apiserver too, where no workspace precedes the
// resource, so that its members may read it there as they do here. Sub-resources, and requests that are not certainly about one object,
// are not.
func (i *Info) nameWorkspace() {
	if !i.IsKubernetes || i.APIGroup != groupTenant || !isWorkspaces(i.Resource) || i.Name == "" || i.Subresource != "" || i.Namespace != "" {
		return
	}
	switch i.Verb {
	case "get", "list", "watch", "update", "patch", "delete":
		i.Workspace = i.Name
	}
}

// parsePath fills in the fields that follow from the path and the method.
func (i *Info) parsePath(method string) error {
	i.Verb = lower(method)
	s := segments(i.Path[1:])
	prefix, group := s.next(), ""
	i.IsKubernetes = prefix == "api" || prefix == "apis"
	switch prefix {
	case "api", "kapi":
	case "apis", "kapis":
		group = s.next()
	default:
		return nil
	}
	version := s.next()
	if s == "" { // discovery
		return nil
	}
	i.IsResource, i.APIPrefix, i.APIGroup, i.APIVersion = true, prefix, group, version
	if err := i.parseVerb(method, &s); err != nil {
		return err
	}
	if !i.IsKubernetes {
		if err := i.parseWorkspace(&s); err != nil {
			return err
		}
	}
	i.parseResource(s)
	if i.Name == "" && i.Verb == "delete" {
		i.Verb = "deletecollection"
	}
	return nil
}

// parseVerb sets the verb by the method, or by the older form in which the path begins with it.
func (i *Info) parseVerb(method string, s *segments) error {
	if special := s.peek(); special == "watch" || special == "proxy" {
		i.Verb = s.next()
		switch {
		case *s == "":
			return status.BadRequestf("the path %s names no resource after %q", excerpt(i.Path), special)
		case special == "watch" && method != http.MethodGet && method != http.MethodHead:
			return methodNotAllowed(method, i.Path)
		}
		return nil
	}
	switch method {
	case http.MethodPost:
		i.Verb = "create"
	case http.MethodGet, http.MethodHead:
		i.Verb = "get"
	case http.MethodPut:
		i.Verb = "update"
	case http.MethodPatch:
		i.Verb = "patch"
	case http.MethodDelete:
		i.Verb = "delete"
	default:
		return methodNotAllowed(method, i.Path)
	}
	return nil
}

// parseWorkspace parses workspaces/{workspace} before a resource. A path that ends there, or in a sub-resource of it, is about the
// object; the object is the workspace's own only in the groups that define it, because rights in a workspace must not reach another
// group's object of that name.
func (i *Info) parseWorkspace(s *segments) error {
	if !isWorkspaces(s.peek()) {
		return nil
	}
	rest := *s
	rest.next()
	name := rest.next()
	if name == "" {
		return nil
	}
	if next := rest.peek(); next == "" || isSubresourceOfParent(next) {
		if i.APIGroup == groupTenant || i.APIGroup == groupResources {
			i.Workspace = name
		}
		return nil
	}
	if isWorkspaces(rest.peek()) {
		return status.BadRequestf("the path %s names a workspace within a workspace", excerpt(i.Path))
	}
	i.Workspace, *s = name, rest
	return nil
}

func isWorkspaces(segment string) bool {
	return segment == "workspaces" || segment == "workspacetemplates"
}

// isSubresourceOfParent distinguishes namespaces/{name}/status from namespaces/{name}/{resource}; the same two names are no resources in
// a workspace either.
func isSubresourceOfParent(segment string) bool {
	return segment == "status" || segment == "finalize"
}

// parseResource parses [namespaces/{namespace}/]{resource}[/{name}[/{subresource}[/...]]].
func (i *Info) parseResource(s segments) {
	if s.peek() == "namespaces" {
		rest := s
		rest.next()
		i.Namespace = rest.next()
		if next := rest.peek(); next != "" && !isSubresourceOfParent(next) {
			s = rest
		}
	}
	i.Resource = s.next()
	i.Name = s.next()
	if i.Verb != "proxy" {
		i.Subresource = s.next()
	}
}

// readQuery distinguishes list and watch from get.
func (i *Info) readQuery(q *parameters, rawQuery string) error {
	if !i.IsResource || i.Verb != "get" || i.Name != "" {
		return nil
	}
	watch, err := q.wantsWatch()
	if err != nil {
		return err
	}
	i.Verb = "list"
	if watch {
		i.Verb = "watch"
	}
	// A selector determines what is read only if the server certainly honours it.
	if i.IsKubernetes {
		i.Name, err = q.selectedName(rawQuery)
	}
	return err
}

// IsProxied reports whether the end of the path is for a server after this one.
func (i *Info) IsProxied() bool {
	if i.IsResource {
		return i.Subresource == "proxy" || i.Verb == "proxy"
	}
	return strings.HasPrefix(i.Path, "/proxy/")
}

// scope returns the scope whose bindings decide; see Info.Scope.
func (i *Info) scope() Scope {
	switch {
	case i.IsResource && i.Workspace == "" && isGlobal(i.APIGroup, i.Resource):
		return Global
	case i.Namespace != "":
		return Namespace
	case i.Workspace != "":
		return Workspace
	}
	return Cluster
}

// isGlobal reports whether a resource belongs to the platform as a whole, so that roles of a cluster, a workspace or a namespace do not
// apply to it.
func isGlobal(group, resource string) bool {
	switch group {
	case groupIAM:
		return resource == "users" || resource == "globalroles" || resource == "globalrolebindings"
	case groupTenant:
		return resource == "workspaces" || resource == "clusters"
	case groupCluster, groupResources:
		return resource == "clusters" || resource == "labels"
	}
	return false
}

// As returns a copy of i that asks for another resource instead of its own, with the scope that this resource has.
func (i *Info) As(gr schema.GroupResource) *Info {
	c := *i
	c.APIGroup, c.Resource = gr.Group, gr.Resource
	c.Scope = c.scope()
	return &c
}

// ListOf returns the request for a list at a path of this server's own; of a workspace where it is not empty.
func ListOf(group, version, plural, workspace string) *Info {
	in := ""
	if workspace != "" {
		in = "/workspaces/" + workspace
	}
	i := &Info{
		Verb: "list", Path: "/kapis/" + group + "/" + version + in + "/" + plural, Workspace: workspace,
		APIPrefix: "kapis", APIGroup: group, APIVersion: version, Resource: plural, IsResource: true,
	}
	return i.As(schema.GroupResource{Group: group, Resource: plural}) // with the scope of the path
}

// OfCluster reports whether i is a list or a watch of all objects of a kind, at a path of this server's own.
func (i *Info) OfCluster() bool {
	return i.IsResource && !i.IsKubernetes && (i.Verb == "list" || i.Verb == "watch") &&
		i.Namespace == "" && i.Workspace == "" && i.Name == "" && i.Subresource == ""
}

// InNamespace returns what i, which is OfCluster, would be if it asked for one namespace.
func (i *Info) InNamespace(name string) Info {
	c := *i
	c.Namespace, c.Path = name, i.within("namespaces/"+name)
	c.Scope = c.scope()
	return c
}

// InWorkspace returns what i, which is OfCluster, would be if it asked for one workspace.
func (i *Info) InWorkspace(name string) Info {
	c := *i
	c.Workspace, c.Path = name, i.within("workspaces/"+name)
	c.Scope = c.scope()
	return c
}

// within returns the path with place inserted before its last segment, which is the resource.
func (i *Info) within(place string) string {
	n := strings.LastIndexByte(i.Path, '/') + 1
	return i.Path[:n] + place + "/" + i.Path[n:]
}

// lower returns the method in lower case; for a method that isMethod knows it allocates nothing.
func lower(method string) string {
	switch method {
	case http.MethodGet:
		return "get"
	case http.MethodHead:
		return "head"
	case http.MethodPost:
		return "post"
	case http.MethodPut:
		return "put"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		return "delete"
	}
	return strings.ToLower(method)
}

func methodNotAllowed(method, path string) error {
	return status.Errorf(http.StatusMethodNotAllowed, "the method %s can't be used on the path %s", excerpt(method), excerpt(path))
}

// IsUpgrade reports whether a request, or an answer, with these headers asks for another protocol (WebSocket, SPDY). An offer of h2c,
// which some clients add to every request, is not one: it may be ignored, and is (RFC 9113, 3.1 has removed it).
func IsUpgrade(h http.Header) bool {
	up := h["Upgrade"]
	if len(up) == 0 || up[0] == "" || strings.EqualFold(up[0], "h2c") {
		return false
	}
	for _, line := range h["Connection"] {
		for token := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(token), "upgrade") {
				return true
			}
		}
	}
	return false
}
