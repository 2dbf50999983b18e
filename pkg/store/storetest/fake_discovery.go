package storetest

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds is a cluster that serves these kinds.
type Kinds map[schema.GroupVersion][]metav1.APIResource

// GroupsAndMaybeResourcesWithContext returns the kinds.
func (k Kinds) GroupsAndMaybeResourcesWithContext(context.Context) (*metav1.APIGroupList,
	map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, lists := &metav1.APIGroupList{}, map[schema.GroupVersion]*metav1.APIResourceList{}
	for gv, kinds := range k {
		v := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: v,
			Versions: []metav1.GroupVersionForDiscovery{v}})
		lists[gv] = &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: kinds}
	}
	return groups, lists, nil, nil
}

// ServerResourcesForGroupVersionWithContext returns nothing: nobody asks for it.
func (Kinds) ServerResourcesForGroupVersionWithContext(context.Context, string) (*metav1.APIResourceList, error) {
	return nil, nil
}

// Cluster returns kinds that are in no namespace. Each is said as its plural, or as "plural Kind".
func Cluster(kinds ...string) []metav1.APIResource { return resources(kinds, false) }

// Namespaced is Cluster for kinds that are in namespaces.
func Namespaced(kinds ...string) []metav1.APIResource { return resources(kinds, true) }

func resources(kinds []string, namespaced bool) (out []metav1.APIResource) {
	for _, words := range kinds {
		plural, kind, named := strings.Cut(words, " ")
		if !named {
			kind = plural
		}
		out = append(out, metav1.APIResource{Name: plural, Kind: kind, Namespaced: namespaced,
			Verbs: metav1.Verbs{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}})
	}
	return out
}
