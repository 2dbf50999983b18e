package review

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
)

// resourceAttributes name a request for a resource, as a SubjectAccessReview does. "*" is what only a rule for "*" allows.
type resourceAttributes struct {
	Workspace string `json:"workspace,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Verb      string `json:"verb,omitempty"`
	Group     string `json:"group,omitempty"`
	// Version may be left out.
	Version     string `json:"version,omitempty"`
	Resource    string `json:"resource,omitempty"`
	Subresource string `json:"subresource,omitempty"`
	Name        string `json:"name,omitempty"`
	// ResourceScope is not read: the scope follows from the rest, as it does for a request.
	ResourceScope string `json:"resourceScope,omitempty"`
}

// pathAttributes name a request for another path. The verb is the method.
type pathAttributes struct {
	Path string `json:"path,omitempty"`
	Verb string `json:"verb,omitempty"`
}

// accessQuery is what is asked about; exactly one of its forms is used.
type accessQuery struct {
	ResourceAttributes    *resourceAttributes `json:"resourceAttributes,omitempty"`
	NonResourceAttributes *pathAttributes     `json:"nonResourceAttributes,omitempty"`
	// Method and Path are those of a request.
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
}

// info returns the request in question, as it would be parsed. Its errors are shown to users.
func (q *accessQuery) info() (*request.Info, error) {
	a, p := q.ResourceAttributes, q.NonResourceAttributes
	switch {
	case a != nil && p == nil && q.Path == "":
		return a.info()
	case p != nil && a == nil && q.Path == "":
		return parsePath(p.Verb, p.Path)
	case q.Path != "" && a == nil && p == nil:
		return parsePath(q.Method, q.Path)
	}
	return nil, errors.New("say what it is about: one of resourceAttributes and nonResourceAttributes")
}

// parsePath parses the target of a request. One that names a resource asks for that resource.
func parsePath(method, target string) (*request.Info, error) {
	u, err := url.ParseRequestURI(target)
	if err != nil || !strings.HasPrefix(target, "/") {
		return nil, fmt.Errorf("the path %.200q is not the path of a request", target)
	}
	if method == "" {
		method = http.MethodGet
	}
	info, err := request.Parse(&http.Request{Method: strings.ToUpper(method), URL: u})
	if err != nil {
		return nil, err
	}
	if info.Cluster != "" {
		return nil, fmt.Errorf("leave /clusters/%s out of the path: each cluster decides by itself, and is asked under that prefix", info.Cluster)
	}
	return info, nil
}

// unnamed stands in a path for a name that is left open.
const unnamed = "-"

// info puts the attributes into a path and parses it, so that they mean what they mean in a request. The verb is then the one in
// question, which need not be one of a request.
func (a *resourceAttributes) info() (*request.Info, error) {
	if a.Verb == "" || a.Resource == "" {
		return nil, errors.New("resourceAttributes: verb and resource are needed")
	}
	name := a.Name
	isWorkspace := a.Group == "tenant.kubesphere.io" && (a.Resource == "workspaces" || a.Resource == "workspacetemplates")
	if isWorkspace && name == "" {
		name = a.Workspace
	}
	wanted := *a
	wanted.Name = name
	if name == "" && a.Subresource != "" {
		name = unnamed
	}
	path, err := a.path(name, isWorkspace)
	if err != nil {
		return nil, err
	}
	info, err := request.Parse(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	if err != nil {
		return nil, err
	}
	info.Verb = a.Verb
	if name == unnamed && wanted.Name == "" {
		info.Name = ""
		if a.Resource == "namespaces" {
			info.Namespace = a.Namespace
		}
		if isWorkspace {
			info.Workspace = a.Workspace
		}
		info = info.As(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}) // the scope follows from the names
	}
	if !wanted.means(info, isWorkspace) {
		return nil, fmt.Errorf("no request asks for the resource %.100q with these attributes", a.Resource)
	}
	return info, nil
}

// path returns the path of such a request.
func (a *resourceAttributes) path(name string, isWorkspace bool) (string, error) {
	version := a.Version
	switch {
	case version != "" && version != "*":
	case a.Group == "resources.kubesphere.io":
		version = "v1alpha3"
	default:
		version = "v1"
	}
	segments := []string{"", "kapi", version}
	if a.Group != "" {
		segments = []string{"", "kapis", a.Group, version}
	}
	if a.Workspace != "" && !isWorkspace {
		segments = append(segments, "workspaces", a.Workspace)
	}
	if a.Namespace != "" {
		segments = append(segments, "namespaces", a.Namespace)
	}
	segments = append(segments, a.Resource)
	if name != "" {
		segments = append(segments, name)
	}
	if a.Subresource != "" {
		segments = append(segments, a.Subresource)
	}
	for _, s := range segments[1:] {
		if s == "" || strings.ContainsRune(s, '/') {
			return "", fmt.Errorf("resourceAttributes: %.100q is no group, version, resource or name", s)
		}
	}
	return strings.Join(segments, "/"), nil
}

// means reports whether a parsed request asks for exactly what the attributes say.
func (a *resourceAttributes) means(i *request.Info, isWorkspace bool) bool {
	namespace, workspace := a.Namespace, a.Workspace
	if namespace == "" && a.Resource == "namespaces" {
		namespace = a.Name // a namespace is in itself
	}
	if workspace == "" && isWorkspace {
		workspace = a.Name
	}
	return i.IsResource && i.Cluster == "" && i.APIGroup == a.Group && i.Resource == a.Resource && i.Subresource == a.Subresource &&
		i.Name == a.Name &&
		i.Namespace == namespace && i.Workspace == workspace
}
