package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

const (
	hostileFinalizer = "hostile.example.com/hold"
	absentUID        = "00000000-0000-4000-8000-000000000000"
)

// mutation makes a body mean more than its path says. It changes the object, or the text that is sent.
type mutation struct {
	name   string
	change func(o, meta obj)
	text   func(s string) string
}

func (w *hostileWorld) mutations() []mutation {
	other := w.b
	set := func(field string, value any) func(obj, obj) { return func(_, meta obj) { meta[field] = value } }
	return []mutation{
		{name: "Plain"},
		{name: "AnotherKind", change: func(o, _ obj) { o["apiVersion"], o["kind"] = "iam.kubesphere.io/v1beta1", "GlobalRoleBinding" }},
		{name: "AnotherNamespace", change: set("namespace", other.namespace)},
		{name: "AnotherName", change: set("name", w.one+"-b")},
		{name: "AnotherWorkspace", change: set("labels", obj{workspaceLabel: other.workspace})},
		// This owner is there, and alone: with an absent one beside it, an applied object without owners could take away this one and leave the other (each
		// field is whose manager wrote it), and the garbage collector would take the object, which may be the writer's own namespace with all that is in it.
		{name: "OwnedByAnother", change: set("ownerReferences", []obj{
			{"apiVersion": "v1", "kind": "Namespace", "name": other.namespace, "uid": w.uid, "controller": true, "blockOwnerDeletion": true},
		})},
		{name: "OwnedByAbsent", change: set("ownerReferences", []obj{{"apiVersion": "v1", "kind": "Namespace", "name": "x", "uid": absentUID}})},
		{name: "Finalizers", change: set("finalizers", []string{hostileFinalizer})},
		{name: "ManagedFields", change: set("managedFields", []obj{{"manager": "ks-controller-manager", "operation": "Apply", "apiVersion": "v1",
			"time": "2020-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": obj{"f:metadata": obj{}}}})},
		{name: "Status", change: func(o, _ obj) {
			o["status"] = obj{"phase": "Active", "state": "Active", "conditions": []obj{}, "targetNamespace": other.namespace,
				"releaseName": w.one}
		}},
		{name: "LabelsOfOurs", change: func(_, meta obj) {
			meta["labels"] = obj{"kubesphere.io/managed": "true", "kubesphere.io/protected-resource": "true", "iam.kubesphere.io/scope": "global",
				"iam.kubesphere.io/aggregate-to-authenticated": "",
				"app.kubernetes.io/managed-by":                 "ks-controller-manager", "iam.kubesphere.io/user-ref": "admin", "kubesphere.io/creator": "admin",
				"kubesphere.io/extension-ref": w.one + "-platform", "application.kubesphere.io/repo-name": w.one + "-b",
				"application.kubesphere.io/app-id": w.one + "-b"}
		}},
		{name: "AnnotationsOfOurs", change: func(_, meta obj) {
			meta["annotations"] = obj{"kubesphere.io/creator": w.viewer, "iam.kubesphere.io/globalrole": "platform-admin",
				"iam.kubesphere.io/granted-clusters": "host", "iam.kubesphere.io/uninitialized": "true",
				"iam.kubesphere.io/role": "admin", "iam.kubesphere.io/aggregation-roles": `["platform-admin"]`, "kubesphere.io/deletion-propagation": "Foreground",
				"kubesphere.io/serviceaccount-name": "robot", "kapis.dev/approve": "yes", "kapis.dev/approved": forgedStamp, "kapis.dev/approved-by": "admin",
				"kapis.dev/approved-placement": forgedStamp, "kapis.dev/fleet-approver": "admin", "application.kubesphere.io/req-user": "admin"}
		}},
		{name: "IdentityOfAnother", change: func(_, meta obj) {
			meta["uid"], meta["resourceVersion"], meta["deletionTimestamp"], meta["creationTimestamp"] = w.uid, "1", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"
		}},
		{name: "TheKeyTwice", text: func(s string) string {
			return strings.Replace(s, `"metadata":{`,
				`"metadata":{"namespace":"`+other.namespace+`","name":"`+w.one+`-b","labels":{"`+workspaceLabel+`":"`+other.workspace+`"}},"metadata":{`, 1)
		}},
		{name: "TheKeyInAnotherCase", text: func(s string) string {
			return strings.Replace(
				s,
				`"metadata":{`,
				`"Metadata":{"namespace":"`+other.namespace+`","Name":"`+w.one+`-b","ownerReferences":[]},"metadata":{"nameSpace":"`+other.namespace+`","Labels":{"`+workspaceLabel+`":"`+other.workspace+`"},`,
				1,
			)
		}},
	}
}

// write is a verb with the form of its body.
type write struct {
	method, contentType, query string
	// new writes to the collection.
	new bool
	// body makes the text of an object.
	body func(t *testing.T, o obj) string
}

var writes = []write{
	{http.MethodPost, "application/json", "", true, encodeWhole},
	{http.MethodPut, "application/json", "", false, encodeWhole},
	{http.MethodPatch, "application/merge-patch+json", "", false, encodeWhole},
	{http.MethodPatch, "application/strategic-merge-patch+json", "", false, encodeWhole},
	{http.MethodPatch, "application/apply-patch+yaml", "fieldManager=hostile&force=true", false, encodeWhole},
	{http.MethodPatch, "application/json-patch+json", "", false, encodeOperations},
}

func encodeWhole(t *testing.T, o obj) string {
	t.Helper()
	return encode(t, o)
}

// encodeOperations is an object as a JSON patch: each field of it, and of its metadata, is added.
func encodeOperations(t *testing.T, o obj) string {
	t.Helper()
	ops := []obj{}
	for field, value := range o {
		if field != "metadata" {
			ops = append(ops, obj{"op": "add", "path": "/" + field, "value": value})
		}
	}
	for field, value := range o["metadata"].(obj) {
		ops = append(ops, obj{"op": "add", "path": "/metadata/" + field, "value": value})
	}
	return encode(t, ops)
}

// attempt is one write, and the object that it is about.
type attempt struct {
	spot
	write
	path, body, mutation, name string
}

// attempt makes the write of a mutation at a spot.
func (s spot) attempt(t *testing.T, m mutation, v write, fresh string) attempt {
	t.Helper()
	a := attempt{spot: s, write: v, path: s.path + "/" + s.name, mutation: m.name, name: s.name}
	if v.new {
		a.path, a.name = s.path, fresh
	}
	if v.query != "" {
		a.path += "?" + v.query
	}
	o := s.body(a.name)
	var copied obj
	raw := encode(t, o)
	if err := json.Unmarshal([]byte(raw), &copied); err != nil {
		t.Fatal(err)
	}
	meta := copied["metadata"].(map[string]any)
	if m.change != nil {
		m.change(copied, meta)
	}
	copied["metadata"] = meta
	if a.body = v.body(t, copied); m.text != nil {
		a.body = m.text(a.body)
	}
	return a
}
