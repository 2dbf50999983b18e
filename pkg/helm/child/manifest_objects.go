package child

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/record"
)

// eachObject calls do for the objects of a release: those of hooks, and then the others in their order.
func eachObject(rel *release.Release, do func(u *unstructured.Unstructured, hook bool) error) error {
	one := func(manifest string, hook bool) error {
		u, err := decode(manifest)
		if err != nil {
			return refused(helm.ReasonInvalid, err)
		}
		if u == nil {
			return nil
		}
		return do(u, hook)
	}
	for _, h := range rel.Hooks {
		if err := one(h.Manifest, true); err != nil {
			return err
		}
	}
	for _, doc := range documents(rel.Manifest) {
		if err := one(doc, false); err != nil {
			return err
		}
	}
	return nil
}

// former returns the objects of the revision that was deployed last, and of the newest one, if that is another.
func former(all []*release.Release) (out []helm.Object, err error) {
	if len(all) == 0 {
		return nil, nil
	}
	revisions := all[len(all)-1:]
	if deployed := record.LastDeployed(all, revisions[0].Version+1); deployed != nil && deployed != revisions[0] {
		revisions = append(revisions[:1:1], deployed)
	}
	for _, rel := range revisions {
		objects, err := recorded(rel)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

// recorded returns the objects of a release's record.
func recorded(rel *release.Release) (out []helm.Object, err error) {
	err = eachObject(rel, func(u *unstructured.Unstructured, hook bool) error {
		_, objects, err := without(u, hook)
		out = append(out, objects...)
		return err
	})
	return out, err
}

// platformRole has the fields of roles, bindings and templates of iam.kubesphere.io.
type platformRole struct {
	Rules     []rbacv1.PolicyRule `json:"rules,omitempty"`
	Templates map[string]any      `json:"aggregationRoleTemplates,omitempty"`
	RoleRef   *rbacv1.RoleRef     `json:"roleRef,omitempty"`
	Spec      struct {
		Rules []rbacv1.PolicyRule `json:"rules,omitempty"`
	} `json:"spec,omitempty"`
}

// objectOf returns an object, with the rights that it gives, and the kind that it adds.
func objectOf(u *unstructured.Unstructured) (helm.Object, error) {
	o := helm.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
	var into any
	var role rbacv1.ClusterRole // a Role has the same fields, but one
	var binding rbacv1.RoleBinding
	var crd apiextensionsv1.CustomResourceDefinition
	var ours platformRole
	switch gk := u.GroupVersionKind().GroupKind(); {
	case gk.Group == rbacv1.GroupName && strings.HasSuffix(gk.Kind, "Role"):
		into = &role
	case gk.Group == rbacv1.GroupName && strings.HasSuffix(gk.Kind, "RoleBinding"):
		into = &binding
	case gk.Group == apiextensionsv1.GroupName && gk.Kind == "CustomResourceDefinition":
		into = &crd
	case gk.Group == iamv1beta1.GroupName:
		into = &ours
	case gk.Group == extensionsv1alpha1.GroupName:
		o.Forwards = u.GetAnnotations()[extensionsv1alpha1.AnnotationForward] == "true"
		return o, nil
	default:
		return o, nil
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into); err != nil {
		return o, fault(helm.ReasonInvalid, "the %s %q can't be read: %v", o.Kind, o.Name, err)
	}
	switch into {
	case &role:
		o.Gives, o.Aggregates = role.Rules, role.AggregationRule != nil
	case &binding:
		o.Binds = &binding.RoleRef
	case &ours:
		o.Gives, o.Aggregates, o.Binds = slices.Concat(ours.Rules, ours.Spec.Rules), ours.Templates != nil, ours.RoleRef
	case &crd:
		o.Defines = &helm.Definition{Group: crd.Spec.Group, Kind: crd.Spec.Names.Kind, Resource: crd.Spec.Names.Plural,
			Namespaced: crd.Spec.Scope == apiextensionsv1.NamespaceScoped}
	}
	return o, nil
}

// documents returns the documents of a manifest, in their order.
func documents(manifest string) []string {
	docs := releaseutil.SplitManifests(manifest)
	keys := make([]string, 0, len(docs))
	for k := range docs {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		switch less := releaseutil.BySplitManifestsOrder([]string{a, b}); {
		case less.Less(0, 1):
			return -1
		case less.Less(1, 0):
			return 1
		}
		return 0
	})
	for i, k := range keys {
		keys[i] = docs[k]
	}
	return keys
}

// without returns the text of an object with digests for the data of Secrets, and which objects it is.
func without(u *unstructured.Unstructured, hook bool) (text string, objects []helm.Object, err error) {
	hide := func(object map[string]any) error {
		one, err := objectOf(&unstructured.Unstructured{Object: object})
		if err != nil {
			return err
		}
		one.Hook = hook
		objects = append(objects, one)
		if one.APIVersion != "v1" || one.Kind != "Secret" {
			return nil
		}
		for _, field := range []string{"data", "stringData"} {
			data, _ := object[field].(map[string]any)
			for k, v := range data {
				value, err := json.Marshal(v) // of a text, or of what it should not be
				if err != nil {
					return fmt.Errorf("encode a value of the Secret %q: %w", one.Name, err)
				}
				sum := sha256.Sum256(value)
				data[k] = "sha256:" + hex.EncodeToString(sum[:4])
			}
			if _, isMap := object[field].(map[string]any); !isMap {
				delete(object, field)
			}
		}
		return nil
	}
	if err := eachItem(u.Object, 0, hide); err != nil {
		return "", nil, err
	}
	raw, err := yaml.Marshal(u.Object)
	return string(raw), objects, err
}

// eachItem calls do for an object, or for the items of a list. What the SDK takes for a list is one: whatever has items.
func eachItem(object map[string]any, depth int, do func(map[string]any) error) error {
	items, isList := object["items"].([]any)
	switch {
	case !isList:
		return do(object)
	case depth > maxListDepth:
		return errListsInLists
	}
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			if err := eachItem(m, depth+1, do); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxListDepth is how deep lists may be in lists.
const maxListDepth = 3

var errListsInLists = fault(helm.ReasonInvalid, "the manifests have lists in lists")
