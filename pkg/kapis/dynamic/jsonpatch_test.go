package dynamic

import (
	"encoding/json"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // what kube-apiserver applies patches with

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/store"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FuzzAnAcceptedJSONPatchKeepsWhatThePathSays applies patches that checkOperation accepts, as kube-apiserver does.
func FuzzAnAcceptedJSONPatchKeepsWhatThePathSays(f *testing.F) {
	for _, s := range []string{
		`[{"op":"add","path":"/spec","value":{}}]`, `[{"op":"replace","path":"/metadata/name","value":"q"}]`, `[{"op":"move","from":"/metadata","path":"/spec"}]`,
		`[{"op":"copy","from":"/spec","path":"/metadata"}]`, `[{"op":"remove","path":""}]`, `[{"op":"add","path":"x/kind","value":"S"}]`,
		`[{"op":"add","path":"/metadata/labels","value":{"kubesphere.io/workspace":"w"}}]`, `[{"op":"remove","path":"/metadata/labels/kubesphere.io~1workspace"}]`,
		`[{"op":"add","path":"/metadata/","value":1}]`, `[{"op":"add","path":"//","value":1},{"op":"test","path":"/kind","value":"Pod"}]`,
		`[{"op":"replace","path":"/~0","value":1}]`,
		`[{"op":"Add","path":"/kind","value":1}]`, `[{"op":"add","path":"/metadata/name~1","value":"x"}]`,
	} {
		f.Add(s)
	}
	const before = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","uid":"u","labels":{"kubesphere.io/workspace":"w","b":"c"}},"spec":{"a":[1]}}`
	o := &writeRequest{
		info: &request.Info{Name: "p", Namespace: "a"}, workspace: "w",
		kind: &store.Kind{GVR: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true},
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) == 0 || text[0] != '[' || !rawjson.Valid(text, maxDepth) {
			return
		}
		for e := rawjson.Array(text); e.Next(); {
			op, err := readOperation(e.Value)
			if err != nil || o.checkOperation(op) != nil {
				return
			}
		}
		patch, err := jsonpatch.DecodePatch([]byte(o.guard(text, &state{uid: "u"}, false)))
		if err != nil {
			return
		}
		after, err := apply(patch, before)
		if err != nil {
			return // refused there
		}
		if !json.Valid(after) {
			t.Fatalf("%s made %s", text, after)
		}
		for _, path := range [][]string{{"apiVersion"}, {"kind"}, {"metadata", "name"}, {"metadata", "namespace"}, {"metadata", "labels", workspaceLabel}} {
			if was, is := rawjson.Get(before, path...), rawjson.Get(string(after), path...); was != is {
				t.Fatalf("%s changed %v from %s to %s", text, path, was, is)
			}
		}
	})
}

// apply applies a patch; panics of the library are kube-apiserver's own matter.
func apply(patch jsonpatch.Patch, to string) (after []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = jsonpatch.ErrTestFailed
		}
	}()
	return patch.Apply([]byte(to))
}
