package source

import (
	"context"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

// Namespace is the only one whose ConfigMaps have charts: another one's content would be shown to whoever may read the files of charts.
const Namespace = "kubesphere-system"

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
		return l.configMap(ctx, ref, v.Spec.Digest)
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

func (l *Loader) configMap(ctx context.Context, ref *v1alpha1.ConfigMapKeyRef, digest string) ([]byte, error) {
	if ref.Namespace != Namespace {
		return nil, failure(ReasonInvalid, "spec.chartDataRef.namespace: charts are in ConfigMaps of %s", Namespace)
	}
	raw, err := l.Objects.ConfigMapKey(ctx, ref.Namespace, ref.Name, ref.Key)
	switch {
	case err != nil:
		return nil, err
	case raw == nil:
		return nil, failure(ReasonNotFound, "spec.chartDataRef: there is no ConfigMap %.253q, or it has no key %.253q", ref.Name, ref.Key)
	case len(raw) > chart.MaxArchive:
		return nil, failure(ReasonTooLarge, "the chart has more than %d MiB", chart.MaxArchive>>20)
	case !IsOf(raw, digest):
		return nil, failure(ReasonDigest, "the chart is another one than its digest says")
	}
	return raw, nil
}
