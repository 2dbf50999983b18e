package crdtest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/randfill"
)

// RoundTrip fills each kind of a group and version at random, and holds that nothing of it is lost: as JSON, by the
// pruning of its CRD, by a deep copy, and on the way through unstructured content.
func RoundTrip(t *testing.T, gv schema.GroupVersion, add func(*runtime.Scheme) error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := add(scheme); err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for kind, typ := range scheme.KnownTypes(gv) {
		if typ.PkgPath() != reflect.TypeFor[metav1.Status]().PkgPath() && !strings.HasSuffix(kind, "List") {
			kinds++
			t.Run(kind, func(t *testing.T) { roundTripKind(t, scheme, gv.WithKind(kind)) })
		}
	}
	if kinds == 0 {
		t.Fatalf("no kinds are registered in %s", gv)
	}
}

func roundTripKind(t *testing.T, scheme *runtime.Scheme, gvk schema.GroupVersionKind) {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	if strings.HasSuffix(gvk.Kind, "ey") || strings.HasSuffix(gvk.Kind, "ay") { // the guess takes any y for a consonant's
		plural.Resource = strings.ToLower(gvk.Kind) + "s"
	}
	crd := Load(t, plural.Resource, gvk.Group)
	if crd.Object.Spec.Names.Kind != gvk.Kind || !slices.ContainsFunc(crd.Object.Spec.Versions, served(gvk.Version)) {
		t.Fatalf("the CRD of %s does not serve it", gvk)
	}
	fill := filler()
	for range 50 {
		obj, err := scheme.New(gvk)
		if err != nil {
			t.Fatal(err)
		}
		fill.Fill(obj)
		obj.GetObjectKind().SetGroupVersionKind(gvk)

		raw, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		back, _ := scheme.New(gvk)
		if err := json.Unmarshal(raw, back); err != nil {
			t.Fatal(err)
		}
		if !equality.Semantic.DeepEqual(obj, back) {
			t.Fatalf("JSON lost something:\n%s\n%#v", raw, back)
		}
		if !equality.Semantic.DeepEqual(obj, obj.DeepCopyObject()) {
			t.Fatalf("the deep copy differs: %s", raw)
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		if pruned := crd.Pruned(t, runtime.DeepCopyJSON(content)); len(pruned) > 0 {
			t.Fatalf("the CRD would prune %v", pruned)
		}
	}
}

func served(version string) func(v crdVersion) bool {
	return func(v crdVersion) bool { return v.Served && v.Name == version }
}

// filler fills what JSON can hold: whole seconds, raw content that is an object.
func filler() *randfill.Filler {
	return randfill.NewWithSeed(1).NilChance(0.2).NumElements(1, 3).MaxDepth(12).Funcs(
		func(v *metav1.Time, c randfill.Continue) { v.Time = time.Unix(int64(c.Uint32()), 0) },
		func(v *resource.Quantity, c randfill.Continue) {
			*v = *resource.NewQuantity(int64(c.Uint32()), resource.DecimalSI)
		},
		func(v *runtime.RawExtension, _ randfill.Continue) { v.Raw = []byte(`{"kind":"Any","key":{"n":[1]}}`) },
		func(v *apiextensionsv1.JSON, _ randfill.Continue) { v.Raw = []byte(`{"key":{"n":[1]}}`) },
		func(v *metav1.ObjectMeta, c randfill.Continue) {
			c.FillNoCustom(v)
			v.ManagedFields = nil
		},
	)
}
