package tenant

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Any patch comes out bound to the version, or is refused.
func FuzzAPatchIsBoundToTheVersion(f *testing.F) {
	for _, s := range []string{
		`{}`, `[]`, `{"metadata":{"resourceVersion":"1"}}`, `[{"op":"add","path":"/metadata/resourceVersion","value":"1"}]`, `{"metadata":null}`,
		`{"metadata":[]}`, `[1]`, `{"a":1,"a":2}`, `[{"op":"test","path":"/metadata","value":{}}]`, `x`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, patch string) {
		r := httptest.NewRequest(http.MethodPatch, "/", strings.NewReader(patch))
		body, mediaType, err := readPatch(r)
		if err != nil {
			return
		}
		if _, err := versionIn(body, mediaType); err != nil {
			return
		}
		bound, err := bind(body, mediaType, "77")
		if err != nil {
			return
		}
		if mediaType == typeJSONPatch {
			var ops []json.RawMessage
			if err := json.Unmarshal(bound, &ops); err != nil || string(ops[len(ops)-1]) != `{"op":"add","path":"/metadata/resourceVersion","value":"77"}` {
				t.Errorf("%s became %s", patch, bound)
			}
			return
		}
		var o map[string]any // a struct would take "METADATA" for metadata
		if err := json.Unmarshal(bound, &o); err != nil {
			t.Errorf("%s became %s: %v", patch, bound, err)
		}
		if metadata, _ := o["metadata"].(map[string]any); metadata["resourceVersion"] != "77" {
			t.Errorf("%s became %s", patch, bound)
		}
	})
}

// What is read of any body is an object of the kind with a name and no more than metadata and spec, or the body is refused.
func FuzzABodyIsAnObjectOfTheKind(f *testing.F) {
	for _, s := range []string{
		`{"apiVersion":"iam.kubesphere.io/v1beta1","cluster":"host","kind":"WorkspaceTemplate",` +
			`"metadata":{"annotations":{"kubesphere.io/creator":"admin"},"name":"a"},` +
			`"spec":{"placement":{"clusters":[{"name":"c"}]},"template":{"spec":{"manager":"b"}}}}`,
		`{"cluster":"host","apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubesphere.io/workspace":"w"},"name":"a",` +
			`"annotations":{"kubesphere.io/creator":"mallory"}}}`,
		`{"metadata":{"name":"a","labels":null,"annotations":{"a":"b"}},"spec":null}`,
		`{"metadata":{"name":1}}`,
		`{"metadata":{"name":"a","namespace":"b"}}`, `{"kind":1,"metadata":{"name":"a"}}`, `null`, `[]`, `{"metadata":{"name":"a","labels":[]}}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		o, err := readObject(httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)), "v1", "Namespace")
		if err != nil {
			return
		}
		if o.GetKind() != "Namespace" || o.GetAPIVersion() != "v1" || o.GetName() == "" || o.GetNamespace() != "" || len(o.Object) > 4 {
			t.Errorf("%s became %v", body, o.Object)
		}
		if err := stamp(o, "w"); err == nil && o.GetLabels()["kubesphere.io/workspace"] != "w" {
			t.Errorf("%s is not stamped: %v", body, o.Object)
		}
	})
}
