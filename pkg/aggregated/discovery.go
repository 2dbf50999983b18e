package aggregated

import (
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	queryv1alpha1 "kapis.dev/ks-apiserver/pkg/api/query/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/web"
)

// verbsOfKinds returns the verbs of all kinds here. A watch is answered, but not offered: what walks discovery, as the garbage collector,
// quotas and backups do, then begins nothing with this API.
func verbsOfKinds() []string { return []string{"get", "list"} }

const (
	typeJSON        = "application/json"
	typeDiscoveryV2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// groups answers /apis: the aggregated form for clients that accept it, which is all that kube-apiserver asks for, and the older list.
func (h *Handler) groups(r *http.Request) (any, error) {
	if !accepts(r.Header, "APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") {
		list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{*group()}}
		return web.NewDocument(typeJSON, list)
	}
	kinds := h.Resources.Catalog().All()
	if kinds == nil {
		return nil, errNoDiscovery
	}
	names := discoveredKinds(h.Resources.Catalog(), kinds)
	version := apidiscoveryv2.APIVersionDiscovery{Version: queryv1alpha1.Version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
	for _, k := range kinds {
		scope := apidiscoveryv2.ScopeCluster
		if k.Namespaced {
			scope = apidiscoveryv2.ScopeNamespace
		}
		version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
			Resource: nameOf(h.Resources.Catalog(), k), SingularResource: singular(k), Scope: scope, Verbs: verbsOfKinds(),
			ResponseKind: &metav1.GroupVersionKind{Group: k.GVR.Group, Version: k.GVR.Version, Kind: names[k]},
		})
	}
	version.Resources = append(version.Resources, apidiscoveryv2.APIResourceDiscovery{
		Resource: queryv1alpha1.Queries, SingularResource: "query", Scope: apidiscoveryv2.ScopeCluster, Verbs: []string{"create"},
		ResponseKind: &metav1.GroupVersionKind{Group: queryv1alpha1.GroupName, Version: queryv1alpha1.Version, Kind: "Query"},
	})
	return web.NewDocument(typeDiscoveryV2, &apidiscoveryv2.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items: []apidiscoveryv2.APIGroupDiscovery{{
			ObjectMeta: metav1.ObjectMeta{Name: queryv1alpha1.GroupName}, Versions: []apidiscoveryv2.APIVersionDiscovery{version},
		}},
	})
}

// group returns the group in the older form.
func group() *metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: queryv1alpha1.APIVersion, Version: queryv1alpha1.Version}
	return &metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}, Name: queryv1alpha1.GroupName,
		Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
}

// resourceList returns the kinds in the older form.
func (h *Handler) resourceList() (any, error) {
	kinds := h.Resources.Catalog().All()
	if kinds == nil {
		return nil, errNoDiscovery
	}
	names := discoveredKinds(h.Resources.Catalog(), kinds)
	list := &metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: queryv1alpha1.APIVersion,
	}
	for _, k := range kinds {
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: nameOf(h.Resources.Catalog(), k), SingularName: singular(k), Namespaced: k.Namespaced, Kind: names[k], Verbs: verbsOfKinds(),
			Group: k.GVR.Group, Version: k.GVR.Version,
		})
	}
	list.APIResources = append(list.APIResources, metav1.APIResource{
		Name: queryv1alpha1.Queries, SingularName: "query", Kind: "Query", Verbs: []string{"create"},
	})
	return web.NewDocument(typeJSON, list)
}

// accepts reports whether an Accept header has JSON with these parameters.
func accepts(h http.Header, as, group, version string) bool {
	for _, line := range h["Accept"] {
		for one := range strings.SplitSeq(line, ",") {
			fields := strings.Split(one, ";")
			if strings.TrimSpace(fields[0]) != typeJSON {
				continue
			}
			found := map[string]string{}
			for _, p := range fields[1:] {
				key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
				found[key] = value
			}
			if found["as"] == as && found["g"] == group && found["v"] == version {
				return true
			}
		}
	}
	return false
}
