package child

import (
	"context"
	"fmt"
	"io"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

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
