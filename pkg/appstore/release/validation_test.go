package release_test

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/release"
)

func TestValuesAreAsTheyWereWritten(t *testing.T) {
	text := "replicas: 1\nname: ü\n"
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ raw, want string }{
		"none":           {``, ""},
		"null":           {`null`, ""},
		"an empty text":  {`""`, ""},
		"an object":      {`{"replicas":1}`, `{"replicas":1}`},
		"text":           {string(quoted), text},
		"text in base64": {`"` + base64.StdEncoding.EncodeToString([]byte(text)) + `"`, text},
	} {
		got, err := release.Values(&apiextensionsv1.JSON{Raw: []byte(c.raw)})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q %v, want %q", name, got, err, c.want)
		}
	}
	if got, err := release.Values(nil); got != nil || err != nil {
		t.Errorf("%q %v", got, err)
	}
	large := `"` + strings.Repeat("x: y ", release.MaxValues) + `"`
	if _, err := release.Values(&apiextensionsv1.JSON{Raw: []byte(large)}); err == nil {
		t.Error("values that are too large")
	}
}

func TestAnInventoryIsOfOneRelease(t *testing.T) {
	r := &v2.ApplicationRelease{ObjectMeta: metav1.ObjectMeta{Name: "cache", UID: "u-1"}}
	i := &release.Inventory{Type: v2.TypeHelm, Namespace: "web", RecordDigest: "d", Objects: []release.Object{{Version: "v1", Kind: "Secret", Name: "a"}}}
	m, err := i.ConfigMap(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := release.InventoryOf(m)
	if err != nil || got.Namespace != "web" || len(got.Objects) != 1 || got.Objects[0] != i.Objects[0] {
		t.Errorf("%+v %v", got, err)
	}
	if m.Name == release.InventoryName("u-2") || m.Namespace != "kubesphere-system" {
		t.Errorf("%s/%s", m.Namespace, m.Name)
	}
	// What somebody uploads has another key.
	if _, err := release.InventoryOf(&corev1.ConfigMap{BinaryData: map[string][]byte{"BinaryKey": []byte(`{"type":"helm"}`)}}); err == nil {
		t.Error("a file is an inventory")
	}
}

func FuzzManifest(f *testing.F) {
	for _, seed := range []string{"", "---\n", "a: [", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\napiVersion: v1\nkind: List\nitems: []\n",
		"apiVersion: v1\nkind: ConfigMap\nmetadata: null\n", "apiVersion: a/b/c\nkind: K\nmetadata: {name: a}\n", "metadata: {name: [1]}\nkind: {}\napiVersion: 3\n",
		"a: &a [x]\nb: *a\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		objects, err := release.Manifest(raw)
		if (err == nil) == (len(objects) == 0) {
			t.Errorf("%d objects, %v", len(objects), err)
		}
		for _, o := range objects {
			if o.GetName() == "" || o.GetKind() == "" || o.GetAPIVersion() == "" || o.IsList() {
				t.Errorf("%v", o.Object)
			}
		}
		if err := release.SameKinds(objects, objects); err != nil {
			t.Error(err)
		}
	})
}
