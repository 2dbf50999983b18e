package release_test

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
)

// The text of an inventory is refused, or read as it is written again: nothing that was installed is lost on the way.
func FuzzInventory(f *testing.F) {
	for _, seed := range []string{
		"", "null", "[]", `{"type":"helm","namespace":"n","objects":[{"version":"v1","kind":"ConfigMap","resource":"configmaps","namespace":"n","name":"a"}]}`,
		`{"type":"yaml","operation":"o","recordDigest":"d","baseDigest":"b","objects":[{}]}`, `{"TYPE":"helm","Objects":null}`, `{"namespace":1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := &v2.ApplicationRelease{ObjectMeta: metav1.ObjectMeta{Name: "r", UID: "u"}}
		i, err := release.InventoryOf(&corev1.ConfigMap{Data: map[string]string{"inventory.json": text}})
		if err != nil {
			return
		}
		m, err := i.ConfigMap(r)
		if err != nil {
			t.Fatal(err)
		}
		again, err := release.InventoryOf(m)
		if err != nil {
			t.Fatal(err)
		}
		was, _ := json.Marshal(i)
		is, _ := json.Marshal(again)
		if string(was) != string(is) || m.Name != release.InventoryName("u") {
			t.Errorf("%q is %s, and then %s", text, was, is)
		}
		for n := range i.Objects {
			_ = i.Objects[n].String()
		}
	})
}
