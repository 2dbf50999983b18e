package discovery

import (
	"strings"

	restful "github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// ownResource is a resource, or a sub-resource, that routes of this server name.
type ownResource struct {
	name       string
	namespaced bool // in all of its routes
	verbs      map[string]bool
}

// ownResources reads the resources out of the routes, as requests to them are authorized: request.ParsePattern.
func ownResources(services []*restful.WebService) (map[schema.GroupVersion]map[string]*ownResource, error) {
	out := map[schema.GroupVersion]map[string]*ownResource{}
	for _, ws := range services {
		for _, route := range ws.Routes() {
			pattern, err := request.ParsePattern(route.Method, route.Path)
			if err != nil {
				return nil, err
			}
			asks := pattern.Asks()
			gv := schema.GroupVersion{Group: asks.APIGroup, Version: asks.APIVersion}
			if !asks.IsResource || asks.APIPrefix != "kapis" || isParameter(gv.Group) || isParameter(gv.Version) || isParameter(asks.Resource) {
				continue
			}
			name := asks.Resource
			if asks.Subresource != "" {
				if isParameter(asks.Subresource) {
					continue
				}
				name += "/" + asks.Subresource
			}
			if out[gv] == nil {
				out[gv] = map[string]*ownResource{}
			}
			r := out[gv][name]
			if r == nil {
				r = &ownResource{name: name, namespaced: true, verbs: map[string]bool{}}
				out[gv][name] = r
			}
			r.namespaced = r.namespaced && asks.Namespace != "" && asks.Resource != "namespaces"
			r.verbs[asks.Verb] = true
			if route.Metadata[web.MetadataWatch] == true {
				r.verbs["watch"] = true
			}
		}
	}
	return out, nil
}

func isParameter(segment string) bool { return strings.HasPrefix(segment, "{") }

// kind returns a name for what has no kind in Kubernetes: the resource's, or the sub-resource's, with a capital.
func (r *ownResource) kind() string {
	name := r.name[strings.IndexByte(r.name, '/')+1:]
	return strings.ToUpper(name[:1]) + name[1:]
}
