package child

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// maxShown bounds the manifest in a result: the objects are named in any case.
const maxShown = 4 << 20

// render returns what Apply would apply.
func (o *operation) render(ctx context.Context) (*helm.Result, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	all, err := history(o.config.Releases, o.Request.Name)
	if err != nil {
		return nil, err
	}
	found, err := o.chartDefinitions()
	if err != nil {
		return nil, err
	}
	for _, u := range found {
		if err := o.definitions.check(ctx, u); err != nil {
			return nil, err
		}
	}
	rel, err := o.renderOnly(ctx, found, len(all) > 0)
	if err != nil {
		return nil, err
	}
	if err := fit(rel); err != nil {
		return nil, err
	}
	result := &helm.Result{}
	for _, u := range found {
		result.Objects = append(result.Objects, helm.Object{APIVersion: u.GetAPIVersion(), Kind: u.GetKind(), Name: u.GetName(), CRD: true})
	}
	var shown strings.Builder
	show := func(manifest string, hook bool) error {
		u, err := decode(manifest)
		if err != nil || u == nil {
			return refused(helm.ReasonInvalid, err)
		}
		text, objects, err := without(u, hook)
		if err != nil {
			return err
		}
		result.Objects = append(result.Objects, objects...)
		if shown.Len()+len(text) <= maxShown {
			shown.WriteString("---\n" + text)
		}
		return nil
	}
	for _, h := range rel.Hooks {
		if err := show(h.Manifest, true); err != nil {
			return nil, err
		}
	}
	for _, doc := range documents(rel.Manifest) {
		if err := show(doc, false); err != nil {
			return nil, err
		}
	}
	result.Manifest = shown.String()
	return result, nil
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
	hide := func(object map[string]any) {
		item := unstructured.Unstructured{Object: object}
		objects = append(objects, helm.Object{APIVersion: item.GetAPIVersion(), Kind: item.GetKind(), Namespace: item.GetNamespace(),
			Name: item.GetName(), Hook: hook})
		if item.GetAPIVersion() != "v1" || item.GetKind() != "Secret" {
			return
		}
		for _, field := range []string{"data", "stringData"} {
			data, _ := object[field].(map[string]any)
			for k, v := range data {
				sum := sha256.Sum256([]byte(fmt.Sprint(v)))
				data[k] = "sha256:" + hex.EncodeToString(sum[:4])
			}
			if _, isMap := object[field].(map[string]any); !isMap {
				delete(object, field)
			}
		}
	}
	if items, ok := u.Object["items"].([]any); ok && strings.HasSuffix(u.GetKind(), "List") {
		for _, item := range items {
			if m, ok := item.(map[string]any); ok {
				hide(m)
			}
		}
	} else {
		hide(u.Object)
	}
	raw, err := yaml.Marshal(u.Object)
	return string(raw), objects, err
}

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
