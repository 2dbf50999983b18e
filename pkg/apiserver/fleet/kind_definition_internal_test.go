package fleet

import (
	"errors"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// F26: a definition that is going, or serves another version, serves nothing, and one that can't be read is none that is gone.
func TestWhatServesAKindIsRead(t *testing.T) {
	users := iamv1beta1.SchemeGroupVersion.WithResource("users")
	made := metav1.NewTime(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))
	definition := func(change func(*apiextensionsv1.CustomResourceDefinition)) *apiextensionsv1.CustomResourceDefinition {
		d := &apiextensionsv1.CustomResourceDefinition{}
		d.APIVersion, d.Kind, d.Name = "apiextensions.k8s.io/v1", "CustomResourceDefinition", "users.iam.kubesphere.io"
		d.CreationTimestamp = made
		d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1alpha2", Served: true}, {Name: "v1beta1", Served: true}}
		change(d)
		return d
	}
	going := metav1.Now()
	for name, x := range map[string]struct {
		change func(*apiextensionsv1.CustomResourceDefinition)
		want   time.Time
	}{
		"Served":  {func(*apiextensionsv1.CustomResourceDefinition) {}, made.Time},
		"Going":   {func(d *apiextensionsv1.CustomResourceDefinition) { d.DeletionTimestamp = &going }, time.Time{}},
		"Unknown": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions = d.Spec.Versions[:1] }, time.Time{}},
		"Off":     {func(d *apiextensionsv1.CustomResourceDefinition) { d.Spec.Versions[1].Served = false }, time.Time{}},
		"Another": {func(d *apiextensionsv1.CustomResourceDefinition) { d.Name = "users.example.com" }, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := apiextensionsv1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			got, err := definitionOf(dynamicfake.NewSimpleDynamicClient(scheme, definition(x.change)).Resource(definitionsKind))(t.Context(), users)
			if err != nil || !got.Equal(x.want) {
				t.Errorf("it is of %v, %v, want %v", got, err, x.want)
			}
		})
	}
	client := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
	down := errors.New("not now")
	client.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	if _, err := definitionOf(client.Resource(definitionsKind))(t.Context(), users); !errors.Is(err, down) {
		t.Errorf("one that can't be read: %v", err)
	}
}
