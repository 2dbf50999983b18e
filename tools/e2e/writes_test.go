package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

const (
	asMerge     = "Content-Type: application/merge-patch+json"
	asStrategic = "Content-Type: application/strategic-merge-patch+json"
	asJSONPatch = "Content-Type: application/json-patch+json"
	asApply     = "Content-Type: application/apply-patch+yaml"
	asYAML      = "Content-Type: application/yaml"
)

type obj = map[string]any

// written is what the tests read of an answer to a write.
type written struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		ManagedFields   []struct {
			Manager string `json:"manager"`
		} `json:"managedFields"`
	} `json:"metadata"`
	Spec   obj               `json:"spec"`
	Status any               `json:"status"`
	Data   map[string]string `json:"data"`
}

func (c caller) write(t *testing.T, method, path string, body any, headers ...string) written {
	t.Helper()
	return decode[written](t, c.must(t, http.StatusOK, method, path, body, headers...).body)
}

// newWidgets defines a kind of custom resource, with status and scale, and returns its API version and
// the version's path below /kapis or /apis.
func newWidgets(t *testing.T, scope string) (apiVersion, root string) {
	t.Helper()
	group, plural := unique("w")+".example.com", "widgets"
	anything := obj{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	admin(t).create(t, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", obj{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": obj{"name": plural + "." + group},
		"spec": obj{
			"group": group, "scope": scope, "names": obj{"plural": plural, "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{obj{
				"name": "v1", "served": true, "storage": true,
				"subresources": obj{"status": obj{}, "scale": obj{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
				"schema": obj{"openAPIV3Schema": obj{"type": "object", "properties": obj{
					"spec": obj{"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": obj{"replicas": obj{"type": "integer"}}}, "status": anything,
				}}},
			}},
		},
	})
	root = "/" + group + "/v1"
	eventually(t, "widgets are served", admin(t).is(http.StatusOK, http.MethodGet, "/kapis"+root+"/widgets"))
	return group + "/v1", root
}

func TestEveryKindOfWrite(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	crVersion, crRoot := newWidgets(t, "Namespaced")
	for _, k := range []struct {
		name, path, strategic string
		object                obj
		code                  int // of a strategic merge patch
		edit                  string
	}{
		{"ConfigMap", "/kapi/v1/namespaces/" + ns + "/configmaps", `{"metadata":{"labels":{"s":"1"}}}`,
			obj{"apiVersion": "v1", "kind": "ConfigMap", "data": obj{"k": "v"}}, 200, `{"data":{"k":"w"}}`},
		{"Deployment", "/kapis/apps/v1/namespaces/" + ns + "/deployments", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"example/other"}]}}}}`,
			deployment("x", 0), 200, `{"spec":{"replicas":1}}`},
		{"CustomResource", "/kapis" + crRoot + "/namespaces/" + ns + "/widgets", `{}`, obj{"apiVersion": crVersion, "kind": "Widget", "spec": obj{"replicas": 1}},
			415, `{"spec":{"replicas":2}}`},
	} {
		t.Run(k.name, func(t *testing.T) {
			name := unique("o")
			k.object["metadata"] = obj{"name": name, "labels": obj{"app": name}}
			one := k.path + "/" + name
			made := a.write(t, http.MethodPost, k.path, k.object, "User-Agent: e2e-client/1")
			if made.Kind == "" || made.Metadata.Name != name || made.Metadata.UID == "" || len(made.Metadata.ManagedFields) == 0 ||
				made.Metadata.ManagedFields[0].Manager != "e2e-client" {
				t.Errorf("made %+v", made)
			}
			a.must(t, http.StatusConflict, http.MethodPost, k.path, k.object)
			a.must(t, http.StatusOK, http.MethodPost, k.path+"?dryRun=All", strings.ReplaceAll(encode(t, k.object), name, name+"-dry"))
			a.must(t, http.StatusNotFound, http.MethodDelete, k.path+"/"+name+"-dry", nil)

			t.Run("is read again", func(t *testing.T) {
				eventually(t, "it is in the cache", a.is(http.StatusOK, http.MethodGet, one))
			})
			k.object["metadata"].(obj)["annotations"] = obj{"updated": "yes"}
			if k.name == "CustomResource" { // kube-apiserver updates none without its version
				k.object["metadata"].(obj)["resourceVersion"] = made.Metadata.ResourceVersion
			}
			if got := a.write(t, http.MethodPut, one, k.object); got.Metadata.Annotations["updated"] != "yes" || got.Metadata.UID != made.Metadata.UID {
				t.Errorf("updated to %+v", got)
			}
			k.object["metadata"].(obj)["resourceVersion"] = made.Metadata.ResourceVersion
			a.must(t, http.StatusConflict, http.MethodPut, one, k.object)
			delete(k.object["metadata"].(obj), "resourceVersion")

			a.write(t, http.MethodPatch, one, k.edit, asMerge)
			a.write(t, http.MethodPatch, one, k.edit) // as plain JSON, which the harness sends
			a.must(t, k.code, http.MethodPatch, one, k.strategic, asStrategic)
			patch := `[{"op":"add","path":"/metadata/annotations/patched","value":"yes"}]`
			for _, header := range []string{asJSONPatch, asMerge} { // the console sends it so
				if got := a.write(t, http.MethodPatch, one, patch, header); got.Metadata.Annotations["patched"] != "yes" {
					t.Errorf("patched to %+v", got)
				}
			}
			applied := obj{"apiVersion": k.object["apiVersion"], "kind": k.object["kind"], "metadata": obj{"name": name, "annotations": obj{"applied": "yes"}}}
			if got := a.write(t, http.MethodPatch, one+"?fieldManager=e2e&force=true", applied, asApply); got.Metadata.Annotations["applied"] != "yes" {
				t.Errorf("applied to %+v", got)
			}
			yaml := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata:\n  annotations:\n    applied: again\n  name: %s\n", k.object["apiVersion"], k.object["kind"], name)
			if got := a.write(t, http.MethodPatch, one+"?fieldManager=e2e", yaml, asApply); got.Metadata.Annotations["applied"] != "again" {
				t.Errorf("applied to %+v", got)
			}
			t.Run("a patch changes no identity", func(t *testing.T) {
				for _, body := range []string{
					`{"kind":"Secret"}`, `{"apiVersion":"v9"}`, `{"metadata":{"name":"other"}}`, `{"metadata":{"namespace":"default"}}`, `{"metadata":{"name":null}}`,
					`[{"op":"replace","path":"/metadata/name","value":"other"}]`, `[{"op":"remove","path":"/kind"}]`, `[{"op":"replace","path":"/metadata","value":{}}]`,
				} {
					a.must(t, http.StatusBadRequest, http.MethodPatch, one, body, asMerge)
				}
			})
			a.must(t, http.StatusOK, http.MethodDelete, one+"?dryRun=All", obj{"propagationPolicy": "Background"}) // S22
			a.must(t, http.StatusConflict, http.MethodDelete, one+"?resourceVersion=1", nil)
			a.must(t, http.StatusOK, http.MethodDelete, one, obj{"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
			a.must(t, http.StatusNotFound, http.MethodDelete, one, nil)
			a.must(t, http.StatusNotFound, http.MethodPatch, one, `{}`)
		})
	}
}

func TestSubresourcesAreReadAndWritten(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	version, root := newWidgets(t, "Namespaced")
	path := "/kapis/apps/v1/namespaces/" + ns + "/deployments/web"
	a.must(t, http.StatusOK, http.MethodPost, "/kapis/apps/v1/namespaces/"+ns+"/deployments", deployment("web", 0))
	scale := a.write(t, http.MethodGet, path+"/scale", nil)
	if scale.Kind != "Scale" || scale.Spec["replicas"] != nil && scale.Spec["replicas"] != 0.0 {
		t.Errorf("scale %+v", scale)
	}
	if got := a.write(t, http.MethodPatch, path+"/scale", `{"spec":{"replicas":2}}`, asMerge); got.Spec["replicas"] != 2.0 {
		t.Errorf("scaled to %+v", got)
	}
	if got := a.write(t, http.MethodPut, path+"/scale", obj{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": obj{"name": "web"},
		"spec": obj{"replicas": 1}}); got.Spec["replicas"] != 1.0 {
		t.Errorf("scaled to %+v", got)
	}
	a.must(t, http.StatusBadRequest, http.MethodPut, path+"/scale", obj{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": obj{"name": "other"}})
	a.must(t, http.StatusOK, http.MethodGet, path+"/status", nil)
	a.must(t, http.StatusNotFound, http.MethodGet, path+"/nothing", nil)
	a.must(t, http.StatusOK, http.MethodGet, "/kapi/v1/namespaces/"+ns+"/status", nil)
	a.must(t, http.StatusNotFound, http.MethodGet, "/kapi/v1/namespaces/"+ns+"/pods/p/exec?command=ls", nil)

	widgets := "/kapis" + root + "/namespaces/" + ns + "/widgets"
	a.must(t, http.StatusOK, http.MethodPost, widgets, obj{"apiVersion": version, "kind": "Widget", "metadata": obj{"name": "w"}, "spec": obj{"replicas": 1}})
	got := a.write(t, http.MethodPatch, widgets+"/w/status", `{"status":{"phase":"Ready"},"spec":{"replicas":9}}`, asMerge)
	if fmt.Sprint(got.Status) != "map[phase:Ready]" || got.Spec["replicas"] != 1.0 {
		t.Errorf("status %+v", got)
	}
	a.must(
		t,
		http.StatusOK,
		http.MethodPost,
		"/kapi/v1/namespaces/"+ns+"/serviceaccounts/default/token",
		obj{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": obj{}},
	)
}

func TestWhatDoesNotAgreeIsNotWritten(t *testing.T) {
	a, ns, other := admin(t), newNamespace(t), newNamespace(t)
	maps := "/kapi/v1/namespaces/" + ns + "/configmaps"
	for name, body := range map[string]any{
		"kind":              obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": "x"}},
		"group":             obj{"apiVersion": "apps/v1", "kind": "ConfigMap", "metadata": obj{"name": "x"}},
		"no kind":           obj{"metadata": obj{"name": "x"}},
		"list":              obj{"apiVersion": "v1", "kind": "List", "items": []any{}},
		"namespace":         obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "x", "namespace": other}},
		"two names":         `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","name":"y"}}`,
		"kind in two cases": `{"apiVersion":"v1","kind":"ConfigMap","Kind":"Secret","metadata":{"name":"x"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := a.must(t, http.StatusBadRequest, http.MethodPost, maps, body)
			if !strings.Contains(r.body, `"kind":"Status"`) {
				t.Error(r.body)
			}
		})
	}
	a.must(t, http.StatusBadRequest, http.MethodPut, maps+"/x", obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "y"}})
	a.must(
		t,
		http.StatusBadRequest,
		http.MethodPost,
		"/kapi/v1/configmaps",
		obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "x", "namespace": ns}},
	)
	for _, at := range []string{ns, other} {
		if l := a.list(t, "/api/v1/namespaces/"+at+"/configmaps?fieldSelector=metadata.name!=kube-root-ca.crt"); len(l.Items) != 0 {
			t.Errorf("%s has %v", at, l.names())
		}
	}
	a.must(t, http.StatusUnsupportedMediaType, http.MethodPost, maps, "k8s", "Content-Type: application/vnd.kubernetes.protobuf")
	a.must(t, http.StatusOK, http.MethodPost, maps, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: yaml}\n", asYAML)
	t.Run("kube-apiserver's own validation reads as it is", func(t *testing.T) {
		r := a.must(t, http.StatusUnprocessableEntity, http.MethodPost, maps, obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "Not_A_Name"}})
		if !strings.Contains(r.body, "RFC 1123") {
			t.Error(r.body)
		}
		r = a.must(
			t,
			http.StatusBadRequest,
			http.MethodPost,
			maps+"?fieldValidation=Strict",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"colour":"red"}`,
		)
		if !strings.Contains(r.body, "colour") {
			t.Error(r.body)
		}
		if r := a.must(t, http.StatusOK, http.MethodPost, maps+"?dryRun=All",
			`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"colour":"red"}`); !strings.Contains(r.header.Get("Warning"), "colour") {
			t.Errorf("headers %v", r.header)
		}
	})
}

func TestACollectionIsDeletedAsSelected(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	maps := "/kapi/v1/namespaces/" + ns + "/configmaps"
	for _, name := range []string{"a", "b", "c"} {
		a.must(t, http.StatusOK, http.MethodPost, maps, obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": name, "labels": obj{"is": name}}})
	}
	for _, query := range []string{"labelSelector=" + url.QueryEscape("is=a|is=b"), "name=a", "limit=1", "labelSelector=is%20in%20("} {
		a.must(t, http.StatusBadRequest, http.MethodDelete, maps+"?"+query, nil)
	}
	a.must(t, http.StatusOK, http.MethodDelete, maps+"?dryRun=All", obj{"gracePeriodSeconds": 0})
	a.must(t, http.StatusOK, http.MethodDelete, maps+"?labelSelector="+url.QueryEscape("is in (a,b)"), nil)
	if l := a.list(t, "/api/v1/namespaces/"+ns+"/configmaps?labelSelector=is"); len(l.Items) != 1 || l.names()[0] != "c" {
		t.Errorf("left are %v", l.names())
	}
}

func TestAMemberWritesInHisNamespaceAlone(t *testing.T) { // S10, S13
	proves(t, "S6", "S10")
	a, ns, other, name := admin(t), newNamespace(t), newNamespace(t), unique("writer")
	u := newUser(t, name)
	role(t, ns, "writer", rule{[]string{""}, []string{"configmaps"}, []string{"get", "list", "create", "update", "patch", "delete"}})
	bind(t, ns, "writer", obj{"kind": "User", "name": name})
	maps := func(ns string) string { return "/kapi/v1/namespaces/" + ns + "/configmaps" }
	object := obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "mine"}}
	eventually(t, "he may create", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, maps(ns), object)
		if err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	u.must(t, http.StatusOK, http.MethodPatch, maps(ns)+"/mine", `{"data":{"a":"b"}}`, asMerge)
	u.must(t, http.StatusOK, http.MethodPut, maps(ns)+"/mine", object)
	a.must(t, http.StatusOK, http.MethodPost, maps(other), object)
	before := a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+other+"/configmaps/mine", nil).body
	for _, c := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, maps(other), obj{"apiVersion": "v1", "kind": "ConfigMap", "metadata": obj{"name": "his"}}},
		{http.MethodPut, maps(other) + "/mine", object},
		{http.MethodPatch, maps(other) + "/mine", `{"data":{"x":"y"}}`},
		{http.MethodPatch, maps(other) + "/mine", `[{"op":"add","path":"/data","value":{}}]`},
		{http.MethodDelete, maps(other) + "/mine", nil},
		{http.MethodDelete, maps(other), nil},
		{http.MethodDelete, maps(ns), nil}, // needs deletecollection
		{http.MethodPost, "/kapi/v1/namespaces/" + ns + "/secrets", obj{"apiVersion": "v1", "kind": "Secret", "metadata": obj{"name": "x"}}},
		{http.MethodPatch, maps(ns) + "/mine/status", `{}`},
		{http.MethodPost, "/kapi/v1/namespaces", obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": "x"}}},
		{http.MethodPost, "/kapis/rbac.authorization.k8s.io/v1/namespaces/" + ns + "/roles",
			obj{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": obj{"name": "x"}}},
		{http.MethodPatch, "/kapis/iam.kubesphere.io/v1beta1/users/" + name, `{"spec":{"groups":["ops"]}}`},
	} {
		r, err := u.do(t.Context(), c.method, c.path, c.body, "X-Remote-User: admin", "X-Remote-Group: system:masters")
		refused := r.code == http.StatusForbidden || strings.Contains(c.path, "/users/") && r.code >= 400 && r.code < 500
		if err != nil || !refused {
			t.Errorf("%s %s = %d %s %v", c.method, c.path, r.code, clip(r.body), err)
		}
	}
	if after := a.must(t, http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+other+"/configmaps/mine", nil).body; after != before {
		t.Errorf("it was %s and is %s", before, after)
	}
	if l := a.list(t, "/api/v1/namespaces/"+other+"/configmaps?fieldSelector=metadata.name!=kube-root-ca.crt"); len(l.Items) != 1 {
		t.Errorf("there are %v", l.names())
	}
	u.must(t, http.StatusOK, http.MethodDelete, maps(ns)+"/mine", nil)
	t.Run("who may make roles can't give more than he has", func(t *testing.T) { // S6
		role(t, ns, "roles", rule{[]string{"rbac.authorization.k8s.io"}, []string{"roles"}, []string{"create", "get"}})
		bind(t, ns, "roles", obj{"kind": "User", "name": name})
		path := "/kapis/rbac.authorization.k8s.io/v1/namespaces/" + ns + "/roles"
		eventually(t, "kube-apiserver refuses the escalation", func(ctx context.Context) error {
			r, err := u.do(ctx, http.MethodPost, path, obj{
				"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": obj{"name": "more"},
				"rules": []any{obj{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"*"}}},
			})
			if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, "not currently held")) {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
	})
}

func TestWhoWritesBackAUserKeepsItsPassword(t *testing.T) { // S3
	proves(t, "S3")
	a, name := admin(t), unique("kept")
	newUser(t, name)
	path := "/kapis/iam.kubesphere.io/v1beta1/users/" + name
	var read reply
	eventually(t, "the hash is in the cache's version", func(ctx context.Context) (err error) {
		if read, err = a.do(ctx, http.MethodGet, path, nil); err == nil && !strings.Contains(read.body, `"Active"`) {
			err = fmt.Errorf("%d %s", read.code, clip(read.body))
		}
		return err
	})
	u := decode[obj](t, read.body)
	delete(u["metadata"].(obj), "resourceVersion")
	u["spec"].(obj)["description"] = "changed"
	r := a.must(t, http.StatusOK, http.MethodPut, path, u)
	if strings.Contains(r.body, "$2a$") || strings.Contains(r.body, `"password"`) || !strings.Contains(r.body, "changed") {
		t.Errorf("answered %s", clip(r.body))
	}
	loginAt(t, product.URL, name, password)
}
