package kit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/chart"
)

const (
	// MaxPushed is how large a packed chart may be that is pushed: what a ConfigMap takes, in bytes.
	MaxPushed = 1 << 20
	// chartNamespace is where the platform looks for charts that were pushed, and chartKey the key of their ConfigMaps.
	chartNamespace, chartKey = "kubesphere-system", "chart.tgz"
	// readWithin is how long the platform may take to read a chart.
	readWithin = time.Minute
)

// Package returns the chart packed, with what the server would say of it. Without a pack there is something that it refuses.
func Package(a *chart.Archive) ([]byte, *Report, error) {
	r := Lint(a)
	if r.Refused() > 0 {
		return nil, r, nil
	}
	raw, err := chart.Pack(r.Name, a)
	return raw, r, err
}

// Push brings a chart to the platform, as a version of its extension that can be installed: its bytes in a ConfigMap, and an
// ExtensionVersion that names it. A version that is there is replaced, unless it is from a Repository. It returns once the platform has
// read the chart.
func (i *Installation) Push(ctx context.Context, raw []byte, r *Report) error {
	if len(raw) > MaxPushed {
		return fmt.Errorf("the packed chart has %d KiB, and a ConfigMap takes %d: put it into a chart repository, and add that as a Repository",
			len(raw)>>10, MaxPushed>>10)
	}
	name := v1alpha1.ExtensionVersionName(r.Name, r.Version)
	holder := "extension-" + name + "-chart"
	is, err := i.pushed(ctx, r.Name, name, holder)
	if err != nil {
		return err
	}
	// The ConfigMap first: until the version names the digest, nobody reads the new chart.
	if err := i.pushChart(ctx, holder, raw); err != nil {
		return err
	}
	before, err := i.pushVersion(ctx, is, r, name, holder, chart.Digest(raw))
	if err != nil {
		return err
	}
	return i.await(ctx, name, chart.Digest(raw), before)
}

// pushed returns the version of an extension that is there already, nil for none. It is an error if a Repository has the extension, or if
// the version has its chart somewhere else.
func (i *Installation) pushed(ctx context.Context, extension, name, holder string) (*v1alpha1.ExtensionVersion, error) {
	e := &v1alpha1.Extension{}
	if _, err := i.get(ctx, extensions, "", extension, e); err != nil {
		return nil, err
	}
	if of := e.Labels[v1alpha1.LabelRepository]; of != "" {
		return nil, ofRepository(extension, of)
	}
	of := labels.Set{v1alpha1.LabelExtension: extension}
	all, err := i.Client.Resource(versions).List(ctx, metav1.ListOptions{LabelSelector: of.String()})
	if err != nil {
		return nil, err
	}
	for n := range all.Items {
		v := &v1alpha1.ExtensionVersion{}
		if err := decode(&all.Items[n], v); err != nil {
			return nil, err
		}
		if err := fromElsewhere(v, extension); err != nil {
			return nil, err
		}
	}
	v := &v1alpha1.ExtensionVersion{} // also one without the label
	there, err := i.get(ctx, versions, "", name, v)
	if err != nil || !there {
		return nil, err
	}
	if err := fromElsewhere(v, extension); err != nil {
		return nil, err
	}
	if ref := v.Spec.ChartDataRef; v.Spec.ChartURL != "" || ref != nil && *ref != refTo(holder) {
		return nil, fmt.Errorf("the version %s is there, and its chart is not in the ConfigMap %s/%s: delete it first, or push another version",
			name, chartNamespace, holder)
	}
	return v, nil
}

// fromElsewhere returns an error if a version is not one that was pushed.
func fromElsewhere(v *v1alpha1.ExtensionVersion, extension string) error {
	for _, of := range []string{v.Spec.Repository, v.Labels[v1alpha1.LabelRepository]} {
		if of != "" {
			return ofRepository(extension, of)
		}
	}
	return nil
}

func ofRepository(extension, repository string) error {
	return fmt.Errorf("the extension %s is of the Repository %s: publish the version there, or give the extension another name",
		extension, repository)
}

func refTo(holder string) v1alpha1.ConfigMapKeyRef {
	return v1alpha1.ConfigMapKeyRef{Namespace: chartNamespace, Name: holder, Key: chartKey}
}

// pushChart writes the ConfigMap of a chart.
func (i *Installation) pushChart(ctx context.Context, holder string, raw []byte) error {
	m, at := &corev1.ConfigMap{}, i.Client.Resource(configMaps).Namespace(chartNamespace)
	there, err := i.get(ctx, configMaps, chartNamespace, holder, m)
	if err != nil {
		return err
	}
	if there {
		if _, has := m.BinaryData[chartKey]; !has || len(m.BinaryData)+len(m.Data) != 1 {
			return fmt.Errorf("the ConfigMap %s/%s is there, and is no chart that was pushed: delete it first", chartNamespace, holder)
		}
		if bytes.Equal(m.BinaryData[chartKey], raw) {
			i.say("configmap/%s unchanged", holder)
			return nil
		}
	}
	m.TypeMeta, m.Name, m.Namespace = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, holder, chartNamespace
	m.BinaryData = map[string][]byte{chartKey: raw}
	o, err := encode(m)
	if err != nil {
		return err
	}
	if there { // in the version that was read
		_, err = at.Update(ctx, o, metav1.UpdateOptions{})
	} else {
		_, err = at.Create(ctx, o, metav1.CreateOptions{})
	}
	return i.done(err, "configmap/"+holder, there)
}

// pushVersion writes the version. It returns what the platform has said of its chart before.
func (i *Installation) pushVersion(ctx context.Context, v *v1alpha1.ExtensionVersion, r *Report,
	name, holder, digest string) (before string, err error) {
	ref, there := refTo(holder), v != nil
	spec := map[string]any{"version": r.Version, "digest": digest, "chartDataRef": ref}
	metadata := map[string]any{"labels": map[string]string{v1alpha1.LabelExtension: r.Name}}
	if !there {
		metadata["name"] = name
		o, err := encode(map[string]any{"apiVersion": v1alpha1.SchemeGroupVersion.String(), "kind": "ExtensionVersion",
			"metadata": metadata, "spec": spec})
		if err != nil {
			return "", err
		}
		_, err = i.Client.Resource(versions).Create(ctx, o, metav1.CreateOptions{})
		return "", i.done(err, "extensionversion/"+name, false)
	}
	before = chartRead(v).Message
	if v.Spec.Digest == digest && v.Spec.ChartDataRef != nil && v.Spec.Version == r.Version && v.Labels[v1alpha1.LabelExtension] == r.Name {
		i.say("extensionversion/%s unchanged", name)
		return before, nil
	}
	metadata["resourceVersion"] = v.ResourceVersion // that of what was read: it may be a Repository's by now
	change, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
	if err != nil {
		return "", fmt.Errorf("encode a change: %w", err)
	}
	_, err = i.Client.Resource(versions).Patch(ctx, name, types.MergePatchType, change, metav1.PatchOptions{})
	return before, i.done(err, "extensionversion/"+name, true)
}

// done tells of a write, or returns its error.
func (i *Installation) done(err error, what string, there bool) error {
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%s was changed by somebody else at the same moment: push again", what)
	case err != nil:
		return err
	case there:
		i.say("%s changed", what)
	default:
		i.say("%s created", what)
	}
	return nil
}

func chartRead(v *v1alpha1.ExtensionVersion) metav1.Condition {
	if c := meta.FindStatusCondition(v.Status.Conditions, v1alpha1.ConditionChartRead); c != nil {
		return *c
	}
	return metav1.Condition{}
}

// await waits until the platform has read a chart. before is what it has said of the last one.
func (i *Installation) await(ctx context.Context, name, digest, before string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readWithin, errors.New("ks-controller-manager has not read the chart yet: see the condition"+
		" ChartRead of the ExtensionVersion "+name))
	defer cancel()
	for {
		v := &v1alpha1.ExtensionVersion{}
		there, err := i.get(ctx, versions, "", name, v)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		switch is := chartRead(v); {
		case !there:
			return fmt.Errorf("the ExtensionVersion %s was deleted", name)
		case v.Spec.Digest != digest:
			return fmt.Errorf("the ExtensionVersion %s was changed by somebody else", name)
		case is.Status == metav1.ConditionTrue && v.Status.Digest == digest:
			return nil
		case is.Status == metav1.ConditionFalse && is.Message != before:
			return fmt.Errorf("the platform can't read the chart: %s", is.Message)
		}
		if err := i.wait(ctx); err != nil {
			return err
		}
	}
}

// wait waits for a pause, or until ctx ends.
func (i *Installation) wait(ctx context.Context) error {
	t := time.NewTimer(i.Pause)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// InstallCommand says how a version that was pushed is installed.
func InstallCommand(name, version string) string {
	return fmt.Sprintf(`%s %s can be installed:
kubectl apply -f - <<'EOF'
apiVersion: kubesphere.io/v1alpha1
kind: InstallPlan
metadata: {name: %[1]s}
spec:
  extension: {name: %[1]s, version: %[2]s}
  enabled: true
EOF
`, name, version)
}
