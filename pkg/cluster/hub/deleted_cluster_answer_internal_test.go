package hub

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
)

// listing is the Clusters of a kube-apiserver, of which only the list is asked for.
type listing struct {
	dynamic.ResourceInterface
	hold chan struct{}

	mu    sync.Mutex
	asked int
	uids  []string
	err   error
}

func (l *listing) List(ctx context.Context, _ metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	if l.hold != nil {
		select {
		case <-l.hold:
		case <-ctx.Done():
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	out := &unstructured.UnstructuredList{}
	for _, uid := range l.uids {
		out.Items = append(out.Items, unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "x", "uid": uid}}})
	}
	return out, l.err
}

// F6: that a Cluster has been deleted is said where kube-apiserver says so, and nowhere else.
func TestWhatIsDeletedIsKnownByKubeAPIServer(t *testing.T) {
	l := &listing{uids: []string{"there"}}
	h := &Hub{Options: Options{Clusters: l, Now: time.Now}}
	if err := h.deleted(t.Context(), "there"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("one that there is: %v", err)
	}
	if err := h.deleted(t.Context(), "gone"); !apierrors.IsGone(err) {
		t.Errorf("one that there is not: %v", err)
	}
	l.mu.Lock()
	l.err = errors.New("no")
	l.mu.Unlock()
	if err := h.deleted(t.Context(), "gone"); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("where nothing is known: %v", err)
	}
}

// F39: anybody may ask to be linked as a Cluster that there is not: kube-apiserver is asked once for all of them, and few wait for that.
func TestUnknownMembersCostLittle(t *testing.T) {
	l := &listing{hold: make(chan struct{})}
	h := &Hub{Options: Options{Clusters: l, Now: time.Now}}
	answers := make(chan error, 3*existingWaiting)
	for range 3 * existingWaiting {
		go func() { answers <- h.deleted(t.Context(), "gone") }()
	}
	for range 2 * existingWaiting {
		if err := <-answers; !apierrors.IsServiceUnavailable(err) {
			t.Errorf("one beyond the bound: %v", err)
		}
	}
	close(l.hold)
	for range existingWaiting {
		if err := <-answers; !apierrors.IsGone(err) {
			t.Errorf("one within it: %v", err)
		}
	}
	if l.asked > 2 { // those who had not arrived when the first question was asked
		t.Errorf("kube-apiserver was asked %d times", l.asked)
	}
}
