package child

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
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

// maxShown bounds the manifest in a result: the objects are named in any case.
const maxShown = 4 << 20

// draw renders the chart as Apply would, and returns the release, its definitions and the records that there are. It changes nothing.
func (o *operation) draw(ctx context.Context) (
	rel *release.Release, found []*unstructured.Unstructured, all []*release.Release, err error) {
	if err := o.validate(); err != nil {
		return nil, nil, nil, err
	}
	if all, err = record.History(o.config.Releases, o.Request.Name); err != nil {
		return nil, nil, nil, err
	}
	if found, err = o.chartDefinitions(); err != nil {
		return nil, nil, nil, err
	}
	for _, u := range found {
		if err := o.definitions.check(ctx, u); err != nil {
			return nil, nil, nil, err
		}
	}
	if rel, err = o.renderOnly(ctx, found, len(all) > 0); err != nil {
		return nil, nil, nil, err
	}
	return rel, found, all, record.Fit(rel)
}

// render returns the objects that Apply would apply.
func (o *operation) render(ctx context.Context) (*helm.Result, error) {
	rel, found, all, err := o.draw(ctx)
	result := &helm.Result{Lookups: o.looked.All()}
	if err != nil {
		return result, err
	}
	for _, u := range found {
		one, err := objectOf(u)
		if err != nil {
			return nil, err
		}
		one.CRD = true
		result.Objects = append(result.Objects, one)
	}
	var shown strings.Builder
	err = eachObject(rel, func(u *unstructured.Unstructured, hook bool) error {
		text, objects, err := without(u, hook)
		if err != nil {
			return err
		}
		result.Objects = append(result.Objects, objects...)
		if shown.Len()+len(text) <= maxShown {
			shown.WriteString("---\n" + text)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if result.Recorded, err = former(all); err != nil {
		return nil, err
	}
	result.Manifest, result.GivesDigest, result.Release = shown.String(), o.given, record.View(all)
	return result, nil
}

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

// chartDefinitions returns the definitions in crds/ of the chart and of its enabled subcharts.
func (o *operation) chartDefinitions() ([]*unstructured.Unstructured, error) {
	c, err := load(o.Request.Chart)
	if err != nil {
		return nil, err
	}
	v, err := values(&o.Request)
	if err != nil {
		return nil, err
	}
	if err := validate(c, v); err != nil { // also leaves out subcharts that are not enabled
		return nil, err
	}
	return definitionsOf(c)
}

// buildsNothing is a client with which the SDK renders without a look at the objects, whose kinds may not be there yet.
type buildsNothing struct{ *kube.Client }

func (buildsNothing) Build(io.Reader, bool) (kube.ResourceList, error) { return nil, nil }

// renderOnly renders the chart as if its definitions had been applied, and changes nothing.
func (o *operation) renderOnly(ctx context.Context, found []*unstructured.Unstructured, isUpgrade bool) (*release.Release, error) {
	c, err := load(o.Request.Chart)
	if err != nil {
		return nil, err
	}
	v, err := values(&o.Request)
	if err != nil {
		return nil, err
	}
	cfg := action.NewConfiguration(action.ConfigurationSetLogger(o.lines))
	cfg.RESTClientGetter, cfg.Releases, cfg.KubeClient = o.getter, o.config.Releases, buildsNothing{o.client}
	if cfg.Capabilities, err = o.capabilities(found); err != nil {
		return nil, err
	}
	a := action.NewInstall(cfg)
	a.ReleaseName, a.Namespace, a.DryRunStrategy, a.IsUpgrade = o.Request.Name, o.Request.Namespace, action.DryRunServer, isUpgrade
	a.SkipCRDs, a.SkipSchemaValidation, a.DisableOpenAPIValidation = true, true, true
	p := o.renderer(ctx)
	p.rendered = func() { o.rendered = true }
	a.PostRenderer = p
	o.rendered = false
	r, err := a.RunWithContext(ctx, c, v)
	if err != nil {
		return nil, o.rendering(err)
	}
	rel, ok := r.(*release.Release)
	if !ok {
		return nil, fmt.Errorf("a release of the unknown type %T", r)
	}
	return rel, nil
}

// capabilities returns what templates are told of the cluster, with the kinds of definitions.
func (o *operation) capabilities(found []*unstructured.Unstructured) (*common.Capabilities, error) {
	version, err := o.getter.discovery.ServerVersion()
	if err != nil {
		return nil, err
	}
	kinds, err := action.GetVersionSet(o.getter.discovery)
	if err != nil {
		return nil, err
	}
	for _, u := range found {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &crd); err != nil {
			return nil, refused(helm.ReasonInvalid, err)
		}
		for _, v := range crd.Spec.Versions {
			if gv := crd.Spec.Group + "/" + v.Name; v.Served && !kinds.Has(gv+"/"+crd.Spec.Names.Kind) {
				kinds = append(kinds, gv, gv+"/"+crd.Spec.Names.Kind)
			}
		}
	}
	return &common.Capabilities{APIVersions: kinds, HelmVersion: common.DefaultCapabilities.HelmVersion,
		KubeVersion: common.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor}}, nil
}
