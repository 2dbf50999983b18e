package source

import (
	"context"
	"strconv"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// Namespace is the only one whose ConfigMaps have charts: another one's content would be shown to whoever may read the files of charts.
const Namespace = "kubesphere-system"

// maxParts bounds the ConfigMaps that have one chart: each has up to 1 MiB.
const maxParts = 64

// Objects are those that say where a chart is.
type Objects interface {
	// ConfigMapKey returns the content of a key; nil where there is none.
	ConfigMapKey(ctx context.Context, namespace, name, key string) ([]byte, error)
	// Repository returns a Repository with its credentials; nil where there is none.
	Repository(ctx context.Context, name string) (*v1alpha1.Repository, error)
}

// Loader reads the charts of ExtensionVersions.
type Loader struct {
	Client  *Client
	Objects Objects
}

// Load returns the chart of v. An error that is a Failure says what is wrong with it; any other one is of the cluster.
func (l *Loader) Load(ctx context.Context, v *v1alpha1.ExtensionVersion) ([]byte, error) {
	if ref := v.Spec.ChartDataRef; ref != nil {
		return l.configMap(ctx, ref, v)
	}
	if v.Spec.ChartURL == "" {
		return nil, failure(ReasonInvalid, "spec.chartURL and spec.chartDataRef: one of them is needed")
	}
	access := &Access{}
	if name := v.Spec.Repository; name != "" {
		r, err := l.Objects.Repository(ctx, name)
		if err != nil {
			return nil, err
		}
		if r != nil {
			if access, err = AccessOf(r); err != nil {
				return nil, err
			}
		}
	}
	if access.base == nil { // of a Repository that is gone, or of none: without credentials
		u, err := parse("spec.chartURL", v.Spec.ChartURL)
		if err != nil {
			return nil, err
		}
		access.base = u
	}
	return l.Client.Chart(ctx, access, v.Spec.ChartURL, v.Spec.Digest)
}

// configMap reads a chart from the ConfigMap that a version names, or from the several that have it in parts.
func (l *Loader) configMap(ctx context.Context, ref *v1alpha1.ConfigMapKeyRef, v *v1alpha1.ExtensionVersion) ([]byte, error) {
	digest, names := v.Spec.Digest, []string{ref.Name}
	if text, ok := v.Annotations[v1alpha1.AnnotationChartParts]; ok {
		parts, err := strconv.Atoi(text)
		if err != nil || parts < 1 || parts > maxParts {
			return nil, failure(ReasonInvalid, "the annotation %s is %.20q: 1 to %d is expected", v1alpha1.AnnotationChartParts, text,
				maxParts)
		}
		names = nil
		for i := range parts {
			names = append(names, ref.Name+"-"+strconv.Itoa(i))
		}
	}
	if ref.Namespace != Namespace {
		return nil, failure(ReasonInvalid, "spec.chartDataRef.namespace: charts are in ConfigMaps of %s", Namespace)
	}
	var raw []byte
	for _, name := range names {
		part, err := l.Objects.ConfigMapKey(ctx, ref.Namespace, name, ref.Key)
		switch {
		case err != nil:
			return nil, err
		case part == nil:
			return nil, failure(ReasonNotFound, "spec.chartDataRef: there is no ConfigMap %.253q, or it has no key %.253q", name, ref.Key)
		}
		if raw = append(raw, part...); len(raw) > chart.MaxArchive {
			return nil, failure(ReasonTooLarge, "the chart has more than %d MiB", chart.MaxArchive>>20)
		}
	}
	if !IsOf(raw, digest) {
		return nil, failure(ReasonDigest, "the chart is another one than its digest says")
	}
	return raw, nil
}
