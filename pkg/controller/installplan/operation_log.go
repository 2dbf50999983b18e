package installplan

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
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

// writeLog keeps the log of the last operation in a ConfigMap.
func (r *Reconciler) writeLog(ctx context.Context, namespace, extension string, l *record) error {
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: r.release(extension) + "-log",
		Labels: map[string]string{v1alpha1.LabelExtension: extension}}, Data: map[string]string{keyLog: l.text.String()}}
	if err := r.Client.Create(ctx, m); !apierrors.IsAlreadyExists(err) {
		return err
	}
	return r.Client.Update(ctx, m)
}
