package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

func TestThatPodsMayNotBeReadIsOneLine(t *testing.T) {
	defer klog.CaptureState().Restore()
	var log bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	failed := watchFailed("shells")
	reflector := cache.NewReflector(&cache.ListWatch{}, &corev1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0)
	told := func() string {
		failed(t.Context(), reflector, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role")))
		klog.Flush()
		return log.String()
	}
	first := told() // klog writes an error once for each severity up to it
	if !strings.Contains(first, "make install") {
		t.Errorf("logged %q", first)
	}
	if again := told(); again != first {
		t.Errorf("told again: %q", again[len(first):])
	}
}
