package discovery

import (
	"maps"
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/extension"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// routedResource is a resource, or a sub-resource, that routes name: those of this server, or of an extension.
type routedResource struct {
	name       string
	namespaced bool // in all of its routes
	inOne      bool // in one of its routes, as those of an extension are that can be listed of all namespaces, too
	verbs      map[string]bool
	as         string // the kind that the routes say, "" for none
}

// routedResources are resources by their group and version, and by their name.
type routedResources map[schema.GroupVersion]map[string]*routedResource

// ownResources reads the resources out of the routes, as requests to them are authorized: request.ParsePattern.
func ownResources(services []*restful.WebService) (routedResources, error) {
	out := routedResources{}
	for _, ws := range services {
		for _, route := range ws.Routes() {
			pattern, err := request.ParsePattern(route.Method, route.Path)
			if err != nil {
				return nil, err
			}
			if r := out.add(pattern); r != nil && route.Metadata[web.MetadataWatch] == true {
				r.verbs["watch"] = true
			}
		}
	}
	return out, nil
}

// extensionResources reads the resources out of the routes that backends of extensions describe, each those of its own group and version.
func extensionResources(all map[schema.GroupVersion][]extension.Route) routedResources {
	out := routedResources{}
	for _, routes := range all {
		for _, route := range routes {
			if r := out.add(route.Pattern); r != nil && r.as == "" && !strings.Contains(r.name, "/") {
				r.as = route.Kind
			}
		}
	}
	maps.DeleteFunc(out, func(gv schema.GroupVersion, _ map[string]*routedResource) bool { return all[gv] == nil })
	return out
}

// add adds what the routes of a pattern serve, and returns it; nil where that is no resource with a name.
func (all routedResources) add(pattern *request.Pattern) *routedResource {
	asks := pattern.Asks()
	gv := schema.GroupVersion{Group: asks.APIGroup, Version: asks.APIVersion}
	if !asks.IsResource || asks.APIPrefix != "kapis" || isParameter(gv.Group) || isParameter(gv.Version) || isParameter(asks.Resource) {
		return nil
	}
	name := asks.Resource
	if asks.Subresource != "" {
		if isParameter(asks.Subresource) {
			return nil
		}
		name += "/" + asks.Subresource
	}
	if all[gv] == nil {
		all[gv] = map[string]*routedResource{}
	}
	r := all[gv][name]
	if r == nil {
		r = &routedResource{name: name, namespaced: true, verbs: map[string]bool{}}
		all[gv][name] = r
	}
	namespaced := asks.Namespace != "" && asks.Resource != "namespaces"
	r.namespaced, r.inOne = r.namespaced && namespaced, r.inOne || namespaced
	r.verbs[asks.Verb] = true
	return r
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, "{") }

// kind returns the kind, or a name for what has none in Kubernetes: the resource's, or the sub-resource's, with a capital.
func (r *routedResource) kind() string {
	if r.as != "" {
		return r.as
	}
	name := r.name[strings.IndexByte(r.name, '/')+1:]
	return strings.ToUpper(name[:1]) + name[1:]
}
