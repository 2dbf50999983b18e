// Package request parses what a request asks for, once, and carries it in the context.
package request

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Info is what a request asks for. Parse makes it, and it is immutable afterwards.
type Info struct {
	// Verb is get, list, watch, create, update, patch, delete, deletecollection or proxy for a resource, and the HTTP method in lower case
	// for other paths.
	Verb string
	// Path is the canonical path, decoded, without the cluster's prefix and without a trailing
	// slash (but for a path that is a proxied target's). It is what is authorized, and what is
	// sent on: see URLPath.
	Path string
	// Cluster is the member named by /clusters/{cluster}/..., empty if none is named.
	Cluster string
	// Workspace and Namespace are the ones named in the path.
	Workspace, Namespace string
	// APIPrefix is api, apis, kapi or kapis for a resource; APIGroup is empty for the core group.
	APIPrefix, APIGroup, APIVersion string
	// Resource, Subresource and Name are empty if the path names none. A list or watch at kube-apiserver that a field selector restricts to
	// one object has that object's name.
	Resource, Subresource, Name string
	// IsResource reports whether the path is one of a resource.
	IsResource bool
	// IsKubernetes reports whether the path is one of kube-apiserver's: /api or /apis.
	IsKubernetes bool
	// Upgrade reports whether the request asks for another protocol, by which the client may send anything.
	Upgrade bool
	// Scope is the scope whose bindings decide.
	Scope Scope
}

// Asked returns what is asked for, as people read it: "create deployments.apps".
func (i *Info) Asked() string {
	if !i.IsResource {
		return i.Verb + " " + i.Path
	}
	s := i.Verb + " " + i.Resource
	if i.Subresource != "" {
		s += "/" + i.Subresource
	}
	if i.APIGroup != "" {
		s += "." + i.APIGroup
	}
	if i.Name != "" {
		s += " " + strconv.Quote(i.Name)
	}
	return s
}

// URLPath returns the Path and the RawPath of the URL that is sent on. rawPath is empty, so that url.URL encodes path in its one
// canonical way; Parse has refused paths whose meaning depends on how they are encoded.
func (i *Info) URLPath() (path, rawPath string) {
	return i.Path, ""
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

// IsProbe reports whether a path asks about the health of this process: /healthz, /livez, /readyz, and their checks.
func IsProbe(path string) bool {
	return strings.HasPrefix(path, "/healthz") || strings.HasPrefix(path, "/livez") || strings.HasPrefix(path, "/readyz")
}
