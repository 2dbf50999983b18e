package request

import (
	"fmt"
	"net/http"
	"strings"

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

// lower returns the method in lower case; for a method that LowerMethod knows it allocates nothing.
func lower(method string) string {
	if known := LowerMethod(method); known != "" {
		return known
	}
	return strings.ToLower(method)
}

// LowerMethod returns a method of HTTP in lower case without allocating, "" for what is none that is served: methods are free text on the
// wire.
func LowerMethod(method string) string {
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
	case http.MethodOptions:
		return "options"
	}
	return ""
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

// cutCluster removes the cluster's name from the path: /clusters/{cluster}/rest, and the older /{api,apis,kapis}/clusters/{cluster}/rest,
// of which /{api,apis,kapis}/rest remains.
func cutCluster(path string) (cluster, rest string, err error) {
	cluster, rest, err = cutClusterOnce(path)
	if err != nil || cluster == "" {
		return "", path, err
	}
	// A second name would be for the member to authorize, after the first one was authorized here.
	if again, _, nested := cutClusterOnce(rest); again != "" || nested != nil {
		return "", "", status.BadRequestf("the path %s names a cluster within a cluster", excerpt(path))
	}
	return cluster, rest, nil
}

func cutClusterOnce(path string) (cluster, rest string, err error) {
	s := segments(path[1:])
	prefix := ""
	first := s.next()
	switch first {
	case "clusters":
	case "api", "apis", "kapis":
		if s.next() != "clusters" {
			return "", path, nil
		}
		prefix = path[:1+len(first)]
	default:
		return "", path, nil
	}
	cluster = s.next()
	if cluster == "" {
		return "", "", status.BadRequestf("the path %s lacks the name of a cluster: /clusters/{cluster}/...", excerpt(path))
	}
	if !isClusterName(cluster) {
		return "", "", status.BadRequestf("%s is no name of a cluster: expected lower-case letters, digits, \"-\" and \".\"", excerpt(cluster))
	}
	if prefix == "" && s == "" {
		return "", "", status.BadRequestf("the path %s names a cluster, but nothing in it: /clusters/%s/...", excerpt(path), cluster)
	}
	if s == "" {
		return cluster, prefix, nil
	}
	rest = path[len(path)-len(s)-1:]
	if prefix != "" {
		rest = prefix + rest
	}
	return cluster, rest, nil
}

// isClusterName reports whether an object could have this name: RFC 1123 labels, joined by dots.
func isClusterName(name string) bool {
	if len(name) > 253 {
		return false
	}
	edge := true // at the start, after a dot
	for n := range len(name) {
		switch c := name[n]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			edge = false
		case c == '-' && !edge && n+1 < len(name) && name[n+1] != '.':
		case c == '.' && !edge:
			edge = true
		default:
			return false
		}
	}
	return !edge
}

// segments is the rest of a path, without the slash before it.
type segments string

// next removes and returns the next segment, which is empty if none is left.
func (s *segments) next() string {
	segment := string(*s)
	if n := strings.IndexByte(segment, '/'); n >= 0 {
		segment, *s = segment[:n], segments(segment[n+1:])
	} else {
		*s = ""
	}
	return segment
}

// peek returns the next segment without removing it.
func (s segments) peek() string {
	return s.next()
}

// excerpt quotes what a client sent, shortened to what a person needs to find it.
func excerpt(s string) string {
	const most = 120
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}

// isMethod reports whether this server knows a method; TRACE and CONNECT are not for an API.
func isMethod(m string) bool {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return true
	}
	return false
}
