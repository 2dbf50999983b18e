package fleet

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// F26: a definition that is being deleted, or gone, is going, and one that can't be read is not known to be.
func TestADefinitionThatGoesIsKnown(t *testing.T) {
	users := iamv1beta1.SchemeGroupVersion.WithResource("users")
	now := metav1.Now()
	for name, x := range map[string]struct {
		called string
		going  *metav1.Time
		want   bool
	}{
		"There":   {"users.iam.kubesphere.io", nil, false},
		"Going":   {"users.iam.kubesphere.io", &now, true},
		"Another": {"users.example.com", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := &unstructured.Unstructured{}
			d.SetAPIVersion("apiextensions.k8s.io/v1")
			d.SetKind("CustomResourceDefinition")
			d.SetName(x.called)
			d.SetDeletionTimestamp(x.going)
			client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), d)
			got, err := definitionGoing(client.Resource(definitionsKind))(t.Context(), users)
			if err != nil || got != x.want {
				t.Errorf("it is going: %v, %v, want %v", got, err, x.want)
			}
		})
	}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	down := errors.New("not now")
	client.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	if going, err := definitionGoing(client.Resource(definitionsKind))(t.Context(), users); going || !errors.Is(err, down) {
		t.Errorf("one that can't be read is going: %v, %v", going, err)
	}
}
