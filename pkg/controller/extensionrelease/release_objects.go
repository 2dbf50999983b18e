// Package extensionrelease has what is known of the Helm releases of extensions: which objects and values they have, whether what they run
// is ready, what their records were, what was noted of their hooks, and which extensions need which.
package extensionrelease

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// Objects returns the objects of a release as kube-apiserver authorizes them, with those of hooks apart. Kinds that the chart itself
// defines count; objects of a kind that there is not are unknown.
func Objects(mapper meta.RESTMapper, namespace string, of []helm.Object) (
	objects, hooks []permission.Object, unknown []string, err error) {
	defined := map[schema.GroupKind]*helm.Definition{}
	for i := range of {
		if d := of[i].Defines; d != nil {
			defined[schema.GroupKind{Group: d.Group, Kind: d.Kind}] = d
		}
	}
	for i := range of {
		o := &of[i]
		gvk := schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
		p := permission.Object{Group: gvk.Group, Name: o.Name, Gives: o.Gives, Aggregates: o.Aggregates, Binds: o.Binds, Forwards: o.Forwards}
		var namespaced bool
		mapping, err := mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		switch d := defined[gvk.GroupKind()]; {
		case err == nil:
			p.Resource, namespaced = mapping.Resource.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace
		case d != nil:
			p.Resource, namespaced = d.Resource, d.Namespaced
		case meta.IsNoMatchError(err):
			unknown = append(unknown, fmt.Sprintf("%s %q of %s", o.Kind, o.Name, o.APIVersion))
			continue
		default:
			return nil, nil, nil, fmt.Errorf("look up the kind %s of %s: %w", o.Kind, o.APIVersion, err)
		}
		if namespaced {
			p.Namespace = cmp.Or(o.Namespace, namespace)
		}
		if o.Hook {
			hooks = append(hooks, p)
		} else {
			objects = append(objects, p)
		}
	}
	return objects, hooks, unknown, nil
}
