package discovery

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/web"
)

const typeJSON = "application/json"

// resources are those of one group and version, by name.
type resources map[string]metav1.APIResource

// build makes the documents of all paths.
func (h *Handler) build(served *store.Served, extensions routedResources) (map[string]*web.Document, error) {
	all := map[schema.GroupVersion]resources{}
	order := make([]string, 0, len(served.Groups)+len(h.own))
	versions := map[string][]string{}
	add := func(gv schema.GroupVersion) resources {
		if all[gv] == nil {
			if _, known := versions[gv.Group]; !known {
				order = append(order, gv.Group)
			}
			all[gv], versions[gv.Group] = resources{}, append(versions[gv.Group], gv.Version)
		}
		return all[gv]
	}
	for _, group := range served.Groups {
		for _, v := range group.Versions {
			into := add(schema.GroupVersion{Group: group.Name, Version: v.Name})
			for _, k := range v.Kinds {
				into[k.GVR.Resource] = ofKind(k)
			}
		}
	}
	h.addByName(served, add)
	// Versions of this server's own follow those of kube-apiserver, the newest first.
	for _, gv := range h.own.order() {
		into := add(gv)
		for name, r := range h.own[gv] {
			merge(into, name, r, h.Catalog)
		}
	}
	for _, gv := range extensions.order() {
		into := add(gv)
		clear(into) // of kinds of this group and version that kube-apiserver has, none is served here
		for name, r := range extensions[gv] {
			into[name] = metav1.APIResource{Name: name, Kind: r.kind(), Namespaced: r.inOne, Verbs: slices.Sorted(maps.Keys(r.verbs))}
		}
	}
	return render(all, order, versions)
}

// order returns the groups by name, and of each the newest version first.
func (all routedResources) order() []schema.GroupVersion {
	return slices.SortedFunc(maps.Keys(all), func(a, b schema.GroupVersion) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
}

// addByName adds every kind to the group whose routes find kinds by their plural alone.
func (h *Handler) addByName(served *store.Served, add func(schema.GroupVersion) resources) {
	if h.ByName.Empty() {
		return
	}
	into := add(h.ByName)
	for _, group := range served.Groups {
		for _, v := range group.Versions {
			for _, k := range v.Kinds {
				gr := k.GVR.GroupResource()
				first, ok := h.Catalog.GroupOf(gr.Resource)
				preferred, known := h.Catalog.Preferred(gr)
				if !ok || first != gr || !known || preferred != k.GVR || !k.Cacheable() {
					continue
				}
				r := ofKind(k)
				r.Group, r.Version, r.Verbs = k.GVR.Group, k.GVR.Version, []string{"get", "list", "watch"}
				into[r.Name] = r
			}
		}
	}
}

// readVerbs need a cache here; everything else is sent to kube-apiserver.
var readVerbs = []string{"get", "list", "watch"}

func ofKind(k *store.Kind) metav1.APIResource {
	r := metav1.APIResource{
		Name: k.GVR.Resource, SingularName: cmp.Or(k.Singular, strings.ToLower(k.Kind)), Namespaced: k.Namespaced, Kind: k.Kind,
		ShortNames: k.ShortNames, Categories: k.Categories, Verbs: metav1.Verbs{},
	}
	for _, verb := range k.Verbs {
		if k.Cacheable() || !slices.Contains(readVerbs, verb) {
			r.Verbs = append(r.Verbs, verb)
		}
	}
	return r
}

// merge adds a resource of this server's own routes, or the verbs of these routes to those that are there.
func merge(into resources, name string, own *routedResource, catalog *store.Catalog) {
	r, ok := into[name]
	if !ok {
		r = metav1.APIResource{Name: name, Kind: own.kind(), Namespaced: own.namespaced}
		if gr, known := catalog.GroupOf(name); known && !strings.Contains(name, "/") {
			preferred, _ := catalog.Preferred(gr)
			if k := catalog.Known(preferred); k != nil {
				r = ofKind(k)
				r.Group, r.Version, r.Verbs = preferred.Group, preferred.Version, nil
			}
		}
	}
	verbs := slices.Clone(r.Verbs)
	for verb := range own.verbs {
		if !slices.Contains(verbs, verb) {
			verbs = append(verbs, verb)
		}
	}
	slices.Sort(verbs)
	r.Verbs = verbs
	into[name] = r
}

func render(all map[schema.GroupVersion]resources, order []string, versions map[string][]string) (map[string]*web.Document, error) {
	out := map[string]*web.Document{}
	put := func(path string, v any) error {
		d, err := web.NewDocument(typeJSON, v)
		out[path] = d
		return err
	}
	groups := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	core := &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{}}
	for _, name := range order {
		group := metav1.APIGroup{Name: name}
		for _, v := range versions[name] {
			gv := schema.GroupVersion{Group: name, Version: v}
			path := rootGroups + "/" + gv.String()
			if name == "" {
				path = rootCore + "/" + v
				core.Versions = append(core.Versions, v)
			}
			list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
			for _, resource := range slices.Sorted(maps.Keys(all[gv])) {
				list.APIResources = append(list.APIResources, all[gv][resource])
			}
			if err := put(path, list); err != nil {
				return nil, err
			}
			group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v})
		}
		if name == "" {
			continue
		}
		group.PreferredVersion = group.Versions[0]
		groups.Groups = append(groups.Groups, group)
		group.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
		if err := put(rootGroups+"/"+name, &group); err != nil {
			return nil, err
		}
	}
	if err := put(rootCore, core); err != nil {
		return nil, err
	}
	return out, put(rootGroups, groups)
}
