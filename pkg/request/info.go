// Package request tells what a request asks for: it is parsed once, and carried in the context.
package request

import (
	"context"
	"strconv"

	"k8s.io/apiserver/pkg/authentication/user"
)

// Info is what a request asks for. It is made once, by Parse, and not changed afterwards.
type Info struct {
	// Verb is get, list, watch, create, update, patch, delete, deletecollection or proxy for a
	// resource, and the HTTP method in lower case for any other path.
	Verb string
	// Path is the canonical path, decoded, without the cluster's prefix and without a trailing
	// slash (but for a path that is a proxied target's). It is what is authorized, and what is
	// sent on: see URLPath.
	Path string
	// Cluster is the member named by /clusters/{cluster}/..., empty where none is named.
	Cluster string
	// Workspace and Namespace are the ones named in the path.
	Workspace, Namespace string
	// APIPrefix is api, apis, kapi or kapis for a resource; APIGroup is empty for the core group.
	APIPrefix, APIGroup, APIVersion string
	// Resource, Subresource and Name are empty where the path names none. A list or watch at
	// kube-apiserver that a field selector restricts to one object has that object's name.
	Resource, Subresource, Name string
	// IsResource tells a request for resources from one for another path.
	IsResource bool
	// IsKubernetes tells that the path is one of kube-apiserver's: /api or /apis.
	IsKubernetes bool
	// Upgrade tells that another protocol is asked for, by which the client sends whatever he likes.
	Upgrade bool
	// Scope is the level whose bindings decide.
	Scope Scope
}

// Asked says what is asked for, as people read it: "create deployments.apps".
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

// InfoKey is the key under which a context has its *Info.
type InfoKey struct{}

// WithInfo returns a context that carries i.
func WithInfo(ctx context.Context, i *Info) context.Context {
	return context.WithValue(ctx, InfoKey{}, i)
}

// InfoFrom returns what the request of ctx asks for, and nil outside of a request.
func InfoFrom(ctx context.Context) *Info {
	i, _ := ctx.Value(InfoKey{}).(*Info)
	return i
}

// UserKey is the key under which a context has its user.Info.
type UserKey struct{}

// WithUser returns a context that carries who asks.
func WithUser(ctx context.Context, u user.Info) context.Context {
	return context.WithValue(ctx, UserKey{}, u)
}

// UserFrom returns who asks, and nil before authentication.
func UserFrom(ctx context.Context) user.Info {
	u, _ := ctx.Value(UserKey{}).(user.Info)
	return u
}

// SourceKey is the key under which a context has the address that its request comes from, as a string.
type SourceKey struct{}

// SourceFrom returns the address that the request of ctx comes from, as trusted proxies say it, and "" where it is not known.
func SourceFrom(ctx context.Context) string {
	s, _ := ctx.Value(SourceKey{}).(string)
	return s
}
