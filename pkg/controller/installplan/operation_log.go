package installplan

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// maxLog bounds the log of an operation, in bytes.
	maxLog = 64 << 10
	keyLog = "log"
)

// record is the log of an operation.
type record struct{ text strings.Builder }

// note writes an event of an operation.
func (l *record) note(e helm.Event) {
	line := e.Message
	if e.Phase != "" {
		line = strings.TrimSpace(string(e.Phase) + ": " + e.Message)
	}
	if line != "" && l.text.Len()+len(line) < maxLog {
		l.text.WriteString(line)
		l.text.WriteByte('\n')
	}
}

// writeLog keeps the log of the last operation in a ConfigMap, unless there is one of the name that is somebody else's.
func (r *Reconciler) writeLog(ctx context.Context, namespace, extension string, l *record) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.release(extension) + "-log",
		Labels: map[string]string{v1alpha1.LabelExtension: extension}}, Data: map[string]string{keyLog: l.text.String()}}
	return r.put(ctx, m)
}

// nameTakenError says that a ConfigMap is not this program's to write for an extension.
type nameTakenError struct{ namespace, name, extension string }

func (e *nameTakenError) Error() string {
	return fmt.Sprintf("there is a ConfigMap %s/%s, and it is not this extension's, or of its chart: it has not the label %s=%s, or has the "+
		"annotation %s", e.namespace, e.name, v1alpha1.LabelExtension, e.extension, extensionrelease.AnnotationHelmRelease)
}

// put writes a ConfigMap of this program's for an extension. One that has not its label is somebody's, and one of a release the chart's:
// it is left, which is a nameTakenError.
func (r *Reconciler) put(ctx context.Context, m *corev1.ConfigMap) error {
	is, extension := &corev1.ConfigMap{}, m.Labels[v1alpha1.LabelExtension]
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), is)
	switch {
	case apierrors.IsNotFound(err):
		return r.Client.Create(ctx, m)
	case err != nil:
		return fmt.Errorf("read the ConfigMap %s/%s: %w", m.Namespace, m.Name, err)
	case is.Labels[v1alpha1.LabelExtension] != extension || is.Annotations[extensionrelease.AnnotationHelmRelease] != "":
		return &nameTakenError{m.Namespace, m.Name, extension}
	}
	m.ResourceVersion = is.ResourceVersion // and so is the one that was looked at
	return r.Client.Update(ctx, m)
}
