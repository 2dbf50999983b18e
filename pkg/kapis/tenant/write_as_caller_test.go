package tenant_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
)

const templates = "/apis/tenant.kubesphere.io/v1beta1/workspacetemplates"

// template is a body as the console sends it: with the apiVersion of another group, and members that no template has.
func template(name, manager string, clusters ...string) string {
	placed := []map[string]string{}
	for _, c := range clusters {
		placed = append(placed, map[string]string{"name": c})
	}
	raw, _ := json.Marshal(map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceTemplate", "cluster": "host",
		"metadata": map[string]any{"name": name, "annotations": map[string]string{"kubesphere.io/creator": "admin"}},
		"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"manager": manager}}, "placement": map[string]any{"clusters": placed}},
	})
	return string(raw)
}

func TestWorkspacesAreCreatedByTheirTemplates(t *testing.T) {
	w := newWorld(t)
	w.allow("admin", "* * platform")
	w.allow("maker", "create workspaces platform", "create workspacetemplates platform")
	w.allow("half", "create workspaces platform")
	w.allow("clusteradmin", "create workspacetemplates platform", "* * cluster")
	for _, c := range []struct {
		name, who, path, body string
		code                  int
		has                   string
	}{
		{"InAPublicCluster", "maker", "/workspacetemplates", template("w1", "maker", "open"), 200, `"name":"w1"`},
		{"AsAWorkspace", "maker", "/workspaces", template("w2", "maker", "open"), 200, `"kind":"WorkspaceTemplate"`},
		{"WithoutAManagerItIsTheCaller", "maker", "/workspacetemplates", template("w3", "", "open"), 200, `"manager":"maker"`},
		{"TheCreatorIsTheCaller", "maker", "/workspacetemplates", template("w4", "maker"), 200, `"kubesphere.io/creator":"maker"`},
		{"AnotherManagerNeedsMore", "maker", "/workspacetemplates", template("x1", "alice", "open"), 403, "manager"},
		{"AClusterThatIsNotPublicNeedsMore", "maker", "/workspacetemplates", template("x2", "maker", "open", "host"), 403, `cluster \"host\" is not public`},
		{"ASelectorNeedsMore", "maker", "/workspacetemplates", `{"metadata":{"name":"x3"},"spec":{"placement":{"clusterSelector":{}}}}`, 403, "clusterSelector"},
		{"ARightToWorkspacesAloneIsNone", "half", "/workspaces", template("x4", "half", "open"), 403, ""},
		{"WhoAdministersTheHostPlacesThere", "clusteradmin", "/workspacetemplates", template("w5", "clusteradmin", "host"), 200, `"name":"w5"`},
		{"ButNotElsewhere", "clusteradmin", "/workspacetemplates", template("x5", "clusteradmin", "other"), 403, "other"},
		{"TheAdministratorPlacesAnywhere", "admin", "/workspacetemplates", template("w6", "alice", "other"), 200, `"manager":"alice"`},
		{"ANameIsTakenOnce", "admin", "/workspacetemplates", template("w6", "alice", "other"), 409, ""},
		{"WithoutANameItIsNone", "admin", "/workspacetemplates", `{"kind":"WorkspaceTemplate"}`, 400, "metadata.name"},
		{"AnotherKindIsNone", "admin", "/workspacetemplates", `{"kind":"User","metadata":{"name":"x"}}`, 400, "User"},
		{"WhatIsNoObjectIsNone", "admin", "/workspacetemplates", `[]`, 400, "JSON object"},
		{"LabelsAreStrings", "admin", "/workspacetemplates", `{"metadata":{"name":"x","labels":{"a":1}}}`, 400, "metadata.labels"},
		{"ADryRunIsWrittenSo", "admin", "/workspacetemplates?dryrun=All", template("x6", "alice"), 400, "dryRun"},
		{"NobodyCreatesNone", "nobody", "/workspaces", template("x7", "nobody", "open"), 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := len(w.kube.sent)
			if body := w.must(c.code, c.who, http.MethodPost, c.path, c.body); !strings.Contains(body, c.has) {
				t.Errorf("%s", body)
			}
			if c.code != 200 && c.code != 409 && len(w.kube.sent) != before {
				t.Errorf("sent %v", w.kube.sent[before:])
			}
		})
	}
	made := w.kube.objects[templates+"/w1"]
	if made["apiVersion"] != "tenant.kubesphere.io/v1beta1" || made["cluster"] != nil {
		t.Errorf("made %v", made)
	}
}

// S65, S69: a template whose name is in use is created only by users who may update and delete what exists, and no one else decides when
// one is deleted.
func TestS65ATemplateOfANameThatIsSomebodysIsNotMade(t *testing.T) {
	metadata := func(name, more string) string {
		return `{"apiVersion":"tenant.kubesphere.io/v1beta1","kind":"WorkspaceTemplate","metadata":{"name":"` + name + `"` + more +
			`},"spec":{"template":{"spec":{"manager":"new"}}}}`
	}
	const owners, finalizers = `,"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"x","uid":"u"}]`, `,"finalizers":["kubesphere.io/cascading-deletion"]`
	for name, c := range map[string]struct {
		rights []string
		body   string
		code   int
		has    string
	}{
		"AFreeName":                 {nil, metadata("free-name", ""), 200, "free-name"},
		"AWorkspaceOfTheName":       {nil, metadata("ending", ""), 403, "of this name"},
		"ByWhoMayUpdateIt":          {[]string{"update workspacetemplates ending"}, metadata("ending", ""), 403, "of this name"},
		"ByWhoMayDeleteIt":          {[]string{"delete workspacetemplates ending"}, metadata("ending", ""), 403, "of this name"},
		"ByWhoMayDoBoth":            {[]string{"update workspacetemplates ending", "delete workspacetemplates ending"}, metadata("ending", ""), 200, "ending"},
		"NamespacesOfTheName":       {nil, metadata("lost", ""), 403, "namespaces"},
		"NamespacesByWhoRunsOthers": {[]string{"* workspacetemplates lost"}, metadata("lost", ""), 403, "namespaces"},
		"NamespacesByWhoMayMove":    {[]string{"update namespaces lost", "delete namespaces lost"}, metadata("lost", ""), 200, "lost"},
		"NamespacesByTheCluster":    {[]string{"update namespaces cluster", "delete namespaces cluster"}, metadata("lost", ""), 200, "lost"},
		"BindingsOfTheName":         {nil, metadata("bound", ""), 403, "try again"},
		"BindingsByWhoMay":          {[]string{"* workspacetemplates bound"}, metadata("bound", ""), 200, "bound"},
		"WithOwners":                {nil, metadata("free-name", owners), 403, "ownerReferences"},
		"WithFinalizers":            {nil, metadata("free-name", finalizers), 403, "finalizers"},
		"WithWhatGoesAlong":         {nil, metadata("free-name", `,"annotations":{"kubesphere.io/deletion-propagation":"Background"}`), 403, "deletion-propagation"},
		"TheSystems":                {[]string{"* workspacetemplates platform"}, metadata("system-workspace", ""), 403, "may do everything"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.allow("new", append(c.rights, "create workspaces platform", "create workspacetemplates platform")...)
			for _, path := range []string{"/workspacetemplates", "/workspaces"} {
				delete(w.kube.objects, templates+"/"+c.has)
				before := len(w.kube.sent)
				if body := w.must(c.code, "new", http.MethodPost, path, c.body); !strings.Contains(body, c.has) {
					t.Errorf("%s: %s", path, body)
				}
				if sent := w.kube.sent[before:]; (len(sent) > 0) != (c.code == 200) {
					t.Errorf("%s: sent %v", path, sent)
				}
			}
		})
	}
}

// A workspace's administrator edits names and notes of its template, and nothing that others decide (S6).
func TestAWorkspacesAdministratorEditsItsNotes(t *testing.T) {
	for _, c := range []struct {
		name, method, body, mediaType string
		code                          int
		has                           string
	}{
		// As the console edits: an array under the type of a merge patch.
		{"ByTheConsolesArray", "PATCH", `[{"op":"add","path":"/metadata/annotations","value":{"kubesphere.io/alias-name":"A"}},
			{"op":"add","path":"/spec","value":{"template":{"metadata":{"annotations":{"x":"y"}},"spec":{"manager":"boss"}},"placement":{"clusters":[{"name":"host"}]}}}]`,
			typeMergePatch, 200, `"kubesphere.io/alias-name":"A"`},
		{"ByAMergePatch", "PATCH", `{"metadata":{"annotations":{"n":"1"}}}`, typeMergePatch, 200, `"n":"1"`},
		{"ByAMergePatchWithoutAType", "PATCH", `{"metadata":{"labels":{"n":"1"}}}`, "application/json", 200, `"n":"1"`},
		{"ByAWholeObject", "PUT", template("a", "boss", "host"), "application/json", 200, `"kubesphere.io/creator":"admin"`},
		{"NotItsManager", "PATCH", `{"spec":{"template":{"spec":{"manager":"alice"}}}}`, typeMergePatch, 403, "manager"},
		{"NotItsManagerByAnArray", "PATCH", `[{"op":"replace","path":"/spec/template/spec/manager","value":"alice"}]`, typeJSONPatch, 403, "manager"},
		{"NotItsManagerByAWholeObject", "PUT", template("a", "alice", "host"), "application/json", 403, "manager"},
		{"NotItsPlacement", "PATCH", `{"spec":{"placement":{"clusters":[{"name":"open"}]}}}`, typeMergePatch, 403, "placement"},
		{"NotItsPlacementByAnArray", "PATCH", `[{"op":"remove","path":"/spec/placement"}]`, typeMergePatch, 403, "placement"},
		{"NotItsPlacementByAWholeObject", "PUT", template("a", "boss"), "application/json", 403, "placement"},
		{"NotItsProtection", "PATCH", `{"metadata":{"labels":{"kubesphere.io/protected-resource":"true"}}}`, typeMergePatch, 403, "protected"},
		{"NotItsFinalizers", "PATCH", `{"metadata":{"finalizers":["x/y"]}}`, typeMergePatch, 403, "finalizers"},
		{"NotItsOwners", "PATCH", `{"metadata":{"ownerReferences":[{"name":"x"}]}}`, typeMergePatch, 403, "ownerReferences"},
		{"NotItsWorkspacesLabels", "PATCH", `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`, typeMergePatch, 403, "annotations"},
		{"NotItsOverrides", "PATCH", `{"spec":{"overrides":[{"clusterName":"x"}]}}`, typeMergePatch, 403, "overrides"},
		{"NotAnotherName", "PUT", template("b", "boss", "host"), "application/json", 400, "same"},
		{"NotAnotherVersion", "PATCH", `{"metadata":{"resourceVersion":"1"}}`, typeMergePatch, 409, "modified"},
		{"NotAnotherVersionByAnArray", "PATCH", `[{"op":"replace","path":"/metadata/resourceVersion","value":"1"}]`, typeMergePatch, 409, "modified"},
		{"NoObjectIsAJSONPatch", "PATCH", `{}`, typeJSONPatch, 400, "array"},
		{"NoTextIsAPatch", "PATCH", `x`, typeMergePatch, 400, "patch"},
		{"NoOtherType", "PATCH", `{}`, "application/apply-patch+yaml", 415, "merge-patch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.allow("owner", "* workspaces a", "* workspacetemplates a")
			for _, path := range []string{"/workspacetemplates/a", "/workspaces/a"} {
				before := len(w.kube.sent)
				if body := w.must(c.code, "owner", c.method, path, c.body, "Content-Type", c.mediaType); !strings.Contains(body, c.has) {
					t.Errorf("%s: %s", path, body)
				}
				want := 0
				if c.code == 200 {
					want = 1
				}
				if sent := w.kube.sent[before:]; len(sent) != want || want > 0 && sent[0] != c.method+" "+templates+"/a as kapis:a" {
					t.Errorf("%s: sent %v", path, sent)
				}
			}
			w.must(http.StatusForbidden, "owner", c.method, "/workspacetemplates/b", c.body, "Content-Type", c.mediaType)
		})
	}
}

func TestPlacementIsChangedByWhoHasTheClusters(t *testing.T) {
	w := newWorld(t)
	w.allow("fleet", "update workspacetemplates platform", "patch workspacetemplates platform", "delete clusters platform")
	w.allow("hostadmin", "update workspacetemplates platform", "patch workspacetemplates platform", "* * cluster")
	patch := func(clusters string) string { return `{"spec":{"placement":{"clusters":[` + clusters + `]}}}` }
	for _, c := range []struct {
		who, body string
		code      int
	}{
		{"fleet", patch(`{"name":"other"},{"name":"host"}`), 200},
		{"hostadmin", patch(`{"name":"host"}`), 403},
		{"hostadmin", patch(`{"name":"other"}`), 200},
		{"hostadmin", patch(`{"name":"other"},{"name":"open"}`), 200},
		{"hostadmin", patch(`{"name":"other"},{"name":"host"},{"name":"open"}`), 200},
		{"fleet", `{"spec":{"placement":{"clusterSelector":{"matchLabels":{"zone":"no value"}}}}}`, 400},
		{"fleet", `{"spec":{"placement":{"clusterSelector":{}}}}`, 200},
		{"hostadmin", `{"spec":{"placement":{"clusterSelector":null}}}`, 403},
	} {
		w.must(c.code, c.who, http.MethodPatch, "/workspacetemplates/b", c.body)
	}
}

func TestAWriteIsDoneAgainWhenAnotherWasQuicker(t *testing.T) {
	w := newWorld(t)
	w.allow("owner", "* workspacetemplates a")
	w.kube.before = func() {
		w.kube.touch(templates+"/a", func(o map[string]any) { metadata(o)["annotations"] = map[string]any{"theirs": "x"} })
	}
	body := w.must(http.StatusOK, "owner", http.MethodPatch, "/workspacetemplates/a", `{"metadata":{"annotations":{"mine":"y"}}}`)
	if !strings.Contains(body, `"theirs"`) || !strings.Contains(body, `"mine"`) {
		t.Errorf("%s", body)
	}
	w.kube.before = func() {
		w.kube.touch(templates+"/a", func(o map[string]any) { o["spec"] = map[string]any{} })
	}
	// What was checked is what is written: the placement is gone meanwhile, so that this is a change of it.
	w.must(http.StatusForbidden, "owner", http.MethodPatch, "/workspacetemplates/a",
		`{"spec":{"template":{"spec":{"manager":"boss"}},"placement":{"clusters":[{"name":"host"}]}}}`)
}

func TestDeletingAWorkspaceSaysWhatBecomesOfItsNamespaces(t *testing.T) {
	w := newWorld(t)
	w.allow("owner", "* workspaces a", "* workspacetemplates a", "delete workspacetemplates system")
	const options = `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}`
	w.must(http.StatusBadRequest, "owner", http.MethodDelete, "/workspaces/a", `{"propagationPolicy":"Perhaps"}`)
	w.must(http.StatusBadRequest, "owner", http.MethodDelete, "/workspaces/a", `{"dryrun":["All"]}`)
	w.must(http.StatusBadRequest, "owner", http.MethodDelete, "/workspaces/a?propagationPolicy=Background", options)
	w.must(http.StatusConflict, "owner", http.MethodDelete, "/workspaces/a", `{"preconditions":{"uid":"another"}}`)
	w.must(http.StatusForbidden, "owner", http.MethodDelete, "/workspaces/b", options)
	w.must(http.StatusForbidden, "owner", http.MethodDelete, "/workspacetemplates/system", "") // it is protected
	w.must(http.StatusBadRequest, "owner", http.MethodDelete, "/workspaces/a?gracePeriodSeconds=1", `{"gracePeriodSeconds":2}`)
	w.must(http.StatusBadRequest, "owner", http.MethodDelete, "/workspaces/a?gracePeriodSeconds=soon", "")
	w.must(http.StatusBadRequest, "owner", http.MethodDelete, "/workspaces/a?propagationpolicy=Orphan", "")
	w.must(http.StatusOK, "owner", http.MethodDelete, "/workspaces/a?dryRun=All", options)
	if len(w.kube.sent) != 0 || w.kube.objects[templates+"/a"] == nil {
		t.Fatalf("sent %v", w.kube.sent)
	}
	if body := w.must(http.StatusOK, "owner", http.MethodDelete, "/workspaces/a", options); !strings.Contains(body, `"message":"success"`) {
		t.Errorf("%s", body)
	}
	if want := []string{"PATCH " + templates + "/a as kapis:a", "DELETE " + templates + "/a as kapis:a"}; !slices.Equal(w.kube.sent, want) {
		t.Errorf("sent %v", w.kube.sent)
	}
	w.must(http.StatusNotFound, "owner", http.MethodDelete, "/workspaces/a", "")
}

// The policy of a deletion for its namespaces is not that of another deletion, whatever its outcome.
func TestADeletionThatIsRefusedLeavesNoPolicy(t *testing.T) {
	const at, annotation = templates + "/a", "kubesphere.io/deletion-propagation"
	const background, orphan = `{"propagationPolicy":"Background"}`, `{"propagationPolicy":"Orphan"}`
	says := func(w *world) any {
		annotations, _ := metadata(w.kube.objects[at])["annotations"].(map[string]any)
		return annotations[annotation]
	}
	say := func(w *world, policy any) {
		annotations := map[string]any{"own": "x"}
		if policy != nil {
			annotations[annotation] = policy
		}
		w.kube.touch(at, func(o map[string]any) { metadata(o)["annotations"] = annotations })
	}
	for name, c := range map[string]struct {
		body    string
		before  any
		refused []int
		code    int
		after   any // what the template says; "gone" where it is deleted
		deleted any // what it said then
	}{
		"Refused":                     {background, nil, []int{403}, 403, nil, nil},
		"RefusedWhereItSaidAnother":   {background, "Orphan", []int{403}, 403, "Orphan", nil},
		"RefusedWhereItSaidTheSame":   {background, "Background", []int{403}, 403, "Background", nil},
		"RefusedThoughItSaidNothing":  {"", "Background", []int{500}, 500, "Background", nil},
		"Overtaken":                   {background, "Orphan", []int{409}, 200, "gone", "Background"},
		"OvertakenForEver":            {background, "Orphan", []int{409, 409, 409, 409, 409}, 409, "Orphan", nil},
		"APlainOneOverridesALeftover": {"", "Background", nil, 200, "gone", nil},
		"OneThatSaysSoOverridesIt":    {orphan, "Background", nil, 200, "gone", "Orphan"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.allow("owner", "* workspaces a", "* workspacetemplates a")
			say(w, c.before)
			w.kube.refuses = map[string][]int{"DELETE " + at: c.refused}
			var deleted any
			w.kube.deleting = func() { deleted = says(w) }
			w.must(c.code, "owner", http.MethodDelete, "/workspaces/a", c.body)
			if c.after == "gone" {
				if w.kube.objects[at] != nil || deleted != c.deleted {
					t.Errorf("deleted: %t, with %v", w.kube.objects[at] == nil, deleted)
				}
			} else if w.kube.objects[at] == nil || says(w) != c.after {
				t.Errorf("it says %v", says(w))
			}
		})
	}
	t.Run("WhatSomebodyElseSaysStays", func(t *testing.T) {
		w := newWorld(t)
		w.allow("owner", "* workspaces a", "* workspacetemplates a")
		w.kube.refuses = map[string][]int{"DELETE " + at: {403}}
		w.kube.refused = func() { say(w, "Foreground") }
		w.must(http.StatusForbidden, "owner", http.MethodDelete, "/workspaces/a", background)
		if says(w) != "Foreground" {
			t.Errorf("it says %v", says(w))
		}
	})
	t.Run("WhatIsBeingDeletedIsLeftAlone", func(t *testing.T) {
		w := newWorld(t)
		w.allow("owner", "* workspaces a", "* workspacetemplates a")
		w.kube.refuses = map[string][]int{"DELETE " + at: {500}} // the answer was lost, the deletion was not
		w.kube.refused = func() {
			w.kube.touch(at, func(o map[string]any) { metadata(o)["deletionTimestamp"] = "2026-11-21T12:00:00Z" })
		}
		w.must(http.StatusInternalServerError, "owner", http.MethodDelete, "/workspaces/a", background)
		if says(w) != "Background" {
			t.Errorf("it says %v", says(w))
		}
	})
}

// The version that was checked is deleted.
func TestADeletionIsCheckedAgainWhenAnotherWriteWasQuicker(t *testing.T) {
	for name, body := range map[string]string{"Plain": "", "WithAPolicy": `{"propagationPolicy":"Background"}`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.allow("owner", "* workspaces a", "* workspacetemplates a")
			w.kube.before = func() {
				w.kube.touch(templates+"/a", func(o map[string]any) {
					metadata(o)["labels"] = map[string]any{"kubesphere.io/protected-resource": "true"}
				})
			}
			w.must(http.StatusForbidden, "owner", http.MethodDelete, "/workspaces/a", body)
			if w.kube.objects[templates+"/a"] == nil {
				t.Error("it was deleted")
			}
		})
	}
}

const (
	older2 = "/kapis/tenant.kubesphere.io/v1alpha2"
	older3 = "/kapis/tenant.kubesphere.io/v1alpha3"
)

// O27: older clients write workspaces, and what is in them, by the same checks. What no workspace has any more is refused, not lost.
func TestOlderClientsWriteWorkspaces(t *testing.T) {
	for _, path := range []string{older2 + "/workspaces", older3 + "/workspacetemplates"} {
		w := newWorld(t)
		w.allow("admin", "* * platform")
		w.allow("maker", "create workspaces platform", "create workspacetemplates platform")
		if made := w.must(200, "maker", http.MethodPost, path, template("w1", "maker", "open")); !strings.Contains(made, `"kind":"WorkspaceTemplate"`) {
			t.Errorf("POST %s: got %s", path, made)
		}
		w.must(403, "maker", http.MethodPost, path, template("w2", "alice", "open"))
		w.must(403, "maker", http.MethodPut, path+"/w1", template("w1", "maker", "open"))
		w.must(200, "admin", http.MethodPut, path+"/w1", template("w1", "alice", "open"))
		w.must(200, "admin", http.MethodPatch, path+"/w1", `{"metadata":{"annotations":{"n":"1"}}}`)
		sent := len(w.kube.sent)
		for _, spec := range []string{`"overrides":[{"clusterName":"host"}]`, `"overrides":"x"`, `"template":{"spec":{"networkIsolation":true}}`,
			`"template":{"spec":{"networkIsolation":"yes"}}`} {
			body := w.must(400, "admin", http.MethodPost, path, `{"metadata":{"name":"w3"},"spec":{`+spec+`}}`)
			if field := spec[1:strings.Index(spec, `":`)]; !strings.Contains(body, "is not supported") || !strings.Contains(body, "spec."+field) {
				t.Errorf("POST %s with %s: got %s", path, spec, body)
			}
		}
		w.must(400, "admin", http.MethodPut, path+"/w1", `{"metadata":{"name":"w1"},"spec":{"template":{"spec":{"networkIsolation":true}}}}`)
		if len(w.kube.sent) != sent {
			t.Errorf("sent %v", w.kube.sent[sent:])
		}
		w.must(200, "admin", http.MethodDelete, path+"/w1", "") // without a body
		w.must(404, "admin", http.MethodDelete, path+"/w1", "{}")
	}
	w := newWorld(t)
	w.allow("admin", "* * platform")
	w.must(200, "admin", http.MethodPost, older2+"/workspaces/a/namespaces", `{"metadata":{"name":"a9"}}`)
	w.must(404, "admin", http.MethodDelete, older2+"/workspaces/b/namespaces/a9", "")
	w.must(200, "admin", http.MethodDelete, older2+"/workspaces/a/namespaces/a9", "")
	w.must(200, "admin", http.MethodPost, older2+"/workspaces/b/resourcequotas", `{"metadata":{"name":"b"},"spec":{"quota":{"hard":{"pods":"9"}}}}`)
	w.must(405, "admin", http.MethodPost, older3+"/workspaces", template("w1", "admin"))
	w.must(404, "admin", http.MethodPost, older2+"/workspaces/a/namespaceassignments", `{}`)
}

func TestQuotasAreOfTheirWorkspace(t *testing.T) {
	w := newWorld(t)
	w.allow("admin", "* * platform")
	w.allow("viewer", "get resourcequotas a")
	const quota = `{"apiVersion":"quota.kubesphere.io/v1alpha2","kind":"ResourceQuota","metadata":{"name":"NAME"},"spec":{"quota":{"hard":{"pods":"9"}},"selector":{"x":"y"}}}`
	of := func(name string) string { return strings.Replace(quota, "NAME", name, 1) }
	const at = "/workspaces/b/resourcequotas"
	body := w.must(http.StatusOK, "admin", http.MethodPost, at, of("b"))
	if !strings.Contains(body, `"selector":{"kubesphere.io/workspace":"b"}`) || !strings.Contains(body, `"labels":{"kubesphere.io/workspace":"b"}`) {
		t.Errorf("%s", body)
	}
	w.must(http.StatusConflict, "admin", http.MethodPost, at, of("b"))
	w.must(http.StatusNotFound, "admin", http.MethodPost, "/workspaces/none/resourcequotas", of("c"))
	w.must(http.StatusConflict, "admin", http.MethodPost, "/workspaces/ending/resourcequotas", of("c"))
	w.must(http.StatusBadRequest, "admin", http.MethodPost, at, strings.Replace(of("c"), `"name":"c"`, `"name":"c","labels":{"kubesphere.io/workspace":"a"}`, 1))
	if body := w.must(http.StatusOK, "admin", http.MethodPut, at+"/b", of("b")); !strings.Contains(body, `"selector":{"kubesphere.io/workspace":"b"}`) {
		t.Errorf("%s", body)
	}
	w.must(http.StatusBadRequest, "admin", http.MethodPut, at+"/b", of("c"))
	sent := len(w.kube.sent)
	w.must(http.StatusNotFound, "admin", http.MethodPut, at+"/a", of("a")) // of workspace a
	w.must(http.StatusNotFound, "admin", http.MethodDelete, at+"/a", "")
	w.must(http.StatusForbidden, "viewer", http.MethodDelete, "/workspaces/a/resourcequotas/a", "") // S10
	w.must(http.StatusForbidden, "viewer", http.MethodPut, "/workspaces/a/resourcequotas/a", of("a"))
	if len(w.kube.sent) != sent {
		t.Errorf("sent %v", w.kube.sent[sent:])
	}
	w.must(http.StatusOK, "admin", http.MethodDelete, at+"/b", "")
	w.must(http.StatusNotFound, "admin", http.MethodDelete, at+"/b", "{}")
}

// S10: every write of a caller with rights by membership only is refused, and nothing is sent.
func TestWhoOnlySeesWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.members["member"] = authz.NewPartialList([]string{"a1"}, []string{"a"})
	for _, line := range []string{
		"POST /workspaces", "POST /workspacetemplates", "PUT /workspaces/a", "PATCH /workspaces/a", "DELETE /workspaces/a", "PUT /workspacetemplates/a",
		"PATCH /workspacetemplates/a", "DELETE /workspacetemplates/a", "POST /workspaces/a/namespaces", "PUT /workspaces/a/namespaces/a1",
		"PATCH /workspaces/a/namespaces/a1", "DELETE /workspaces/a/namespaces/a1", "POST /workspaces/a/namespaceassignments", "POST /workspaces/a/resourcequotas",
		"PUT /workspaces/a/resourcequotas/a", "DELETE /workspaces/a/resourcequotas/a", "GET /workspaces/a/resourcequotas/a",
	} {
		method, path, _ := strings.Cut(line, " ")
		w.must(http.StatusForbidden, "member", method, path, template("a", "member"))
		if strings.Contains(path, "/workspaces") && !strings.HasSuffix(path, "assignments") {
			w.must(http.StatusForbidden, "member", method, older2+path, template("a", "member"))
		}
		if strings.Contains(path, "/workspacetemplates") {
			w.must(http.StatusForbidden, "member", method, older3+path, template("a", "member"))
		}
	}
	if len(w.kube.sent) != 0 {
		t.Errorf("sent %v", w.kube.sent)
	}
}
