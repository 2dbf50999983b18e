package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Two rules of one text, where a text is made of them without quotes: the first gives nothing but to get some pods, the second everything.
const (
	harmlessRule = `{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["junk *],APIGroups:[*],Resources:[*],ResourceNames:[],NonResourceURLs:["]}`
	masterRule   = `{"verbs":["get],APIGroups:[],Resources:[pods],ResourceNames:[junk","*"],"apiGroups":["*"],"resources":["*"],"nonResourceURLs":["],NonResourceURLs:["]}`
	getPods      = `{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}`
	// Two rules of the same words, none of which is wrong: the first is covered by getPods, and the second gives Secrets.
	aPod        = `{"verbs":["get"],"apiGroups":[""],"resources":["pods"],"resourceNames":["secrets"]}`
	withSecrets = `{"verbs":["get"],"apiGroups":[""],"resources":["pods","secrets"]}`
)

// editsRoles is what somebody has who edits roles, and reads pods: which is what he may give.
var editsRoles = []rule{
	{
		Groups:    []string{"iam.kubesphere.io"},
		Resources: []string{"globalroles", "clusterroles", "workspaceroles", "roles", "roletemplates", "builtinroles"},
		Verbs:     []string{"get", "list", "create", "update", "patch", "delete"},
	},
	{Groups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}},
}

// wrongWords have one character each that no word of a rule has.
var wrongWords = []string{"po ds", "pods ", "po,ds", "po[ds", "po]ds", `po"ds`, "po'ds", "po\x00ds", "po\nds", "po\tds", "po\x7fds", "po\u202eds", "po\u00a0ds"}

// wordRules are rules with a word in each of their fields.
func wordRules(word string) map[string]obj {
	out := map[string]obj{}
	for _, field := range []string{"verbs", "apiGroups", "resources", "resourceNames"} {
		r := obj{"verbs": []string{"get"}, "apiGroups": []string{""}, "resources": []string{"pods"}}
		before, _ := r[field].([]string)
		r[field] = append(before, word)
		out[field] = r
	}
	return out
}

// refusesWords sends objects with a wrong word in each field of a rule, as somebody who holds everything: they are refused for the word alone.
func refusesWords(t *testing.T, what, collection, routes string, object func(name, rules string) obj) {
	t.Helper()
	a := admin(t)
	for _, word := range wrongWords {
		for field, r := range wordRules(word) {
			for _, path := range []string{iamAPI + collection, iamRoutes + cmp.Or(routes, collection)} {
				got, err := a.do(t.Context(), http.MethodPost, path+"?dryRun=All", object(unique("word"), encode(t, r)))
				if err != nil {
					t.Fatal(err)
				}
				if got.code != http.StatusUnprocessableEntity && got.code != http.StatusForbidden {
					t.Errorf("%s, %q among the %s, by who holds everything, at %s: %d %s", what, word, field, path, got.code, clip(got.body))
				}
			}
		}
	}
}

// writesRules sends an object with rules in all ways of writing one, over one that is there and under a name that is free.
func writesRules(t *testing.T, do way, collection, name string, object func(name, rules string) obj, patch func(rules string) string, rules, what string) {
	t.Helper()
	fresh := unique("fresh")
	path := collection + "/" + name
	jsonPatch := `[{"op":"replace","path":"/rules","value":[` + rules + `]}]`
	for _, within := range []string{"spec", "role"} {
		if strings.Contains(patch("x"), `"`+within+`"`) {
			jsonPatch = strings.Replace(jsonPatch, "/rules", "/"+within+"/rules", 1)
		}
	}
	for _, c := range []struct{ method, path, body, header string }{
		{http.MethodPost, collection, encode(t, object(fresh, rules)), ""},
		{http.MethodPut, path, encode(t, object(name, rules)), ""},
		{http.MethodPatch, path, patch(rules), asMerge},
		{http.MethodPatch, path, jsonPatch, "Content-Type: application/json-patch+json"},
		{http.MethodPatch, path + "?fieldManager=x&force=true", encode(t, object(name, rules)), "Content-Type: application/apply-patch+yaml"},
		{http.MethodPatch, collection + "/" + fresh + "?fieldManager=x", encode(t, object(fresh, rules)), "Content-Type: application/apply-patch+yaml"},
	} {
		headers := []string{}
		if c.header != "" {
			headers = append(headers, c.header)
		}
		if code, body := do(t, c.method, c.path, c.body, headers...); code != http.StatusForbidden && code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %s %s %s: %d %s", what, c.method, c.path, c.header, code, clip(body))
		}
	}
}

// Whoever may write roles, and holds little, writes a rule that reads as another one; and the other one in its place.
func TestNoRuleIsTakenForAnother(t *testing.T) { // S62, S63
	proves(t, "S62", "S63")
	a, name, workspace := admin(t), unique("editor"), newWorkspaceOf(t)
	project := projectIn(t, workspace)
	u := withRole(t, name, obj{"rules": editsRoles})
	boss := workspace + "-boss"
	labels := obj{"kubesphere.io/workspace": workspace}
	a.create(
		t,
		iamAPI+"/workspaceroles",
		obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRole", "metadata": obj{"name": boss, "labels": labels}, "rules": editsRoles},
	)
	a.create(t, iamAPI+"/workspacerolebindings", obj{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "WorkspaceRoleBinding", "metadata": obj{"name": boss, "labels": labels},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "WorkspaceRole", "name": boss},
		"subjects": []obj{{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}},
	})
	listOf := func(rules string) json.RawMessage { return json.RawMessage("[" + rules + "]") }
	ofKind := func(kind string, labels obj) func(name, rules string) obj {
		return func(name, rules string) obj {
			return obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": kind, "metadata": obj{"name": name, "labels": labels}, "rules": listOf(rules)}
		}
	}
	inRules := func(rules string) string { return `{"rules":[` + rules + `]}` }
	for kind, c := range map[string]struct {
		collection, routes string // routes is where the collection is in the console's routes; empty for the same
		object             func(name, rules string) obj
		patch              func(rules string) string
	}{
		"a ClusterRole":          {"/clusterroles", "", ofKind("ClusterRole", nil), inRules},
		"a GlobalRole":           {"/globalroles", "", ofKind("GlobalRole", nil), inRules},
		"a Role":                 {"/namespaces/" + project + "/roles", "", ofKind("Role", nil), inRules},
		"a WorkspaceRole of his": {"/workspaceroles", "/workspaces/" + workspace + "/workspaceroles", ofKind("WorkspaceRole", labels), inRules},
		"a RoleTemplate": {"/roletemplates", "", func(name, rules string) obj {
			return iamObject("RoleTemplate", name, obj{"spec": obj{"rules": listOf(rules)}})
		}, func(rules string) string { return `{"spec":{"rules":[` + rules + `]}}` }},
		"a pattern of built-ins": {"/builtinroles", "", func(name, rules string) obj {
			return iamObject("BuiltinRole", name, obj{"role": obj{"kind": "Role", "metadata": obj{"name": name}, "rules": listOf(rules)}})
		}, func(rules string) string { return `{"role":{"rules":[` + rules + `]}}` }},
	} {
		mine := unique("mine")
		a.create(t, iamAPI+c.collection, c.object(mine, getPods))
		for claim, do := range ways(u, name) {
			collection := c.collection
			if claim == "routes" && c.routes != "" {
				collection = c.routes
			}
			eventually(t, claim+" he edits "+kind, func(context.Context) error {
				if code, body := do(t, http.MethodPatch, collection+"/"+mine, `{"metadata":{"annotations":{"a":"`+unique("x")+`"}}}`, asMerge); code != http.StatusOK {
					return fmt.Errorf("%d %s", code, clip(body))
				}
				return nil
			})
			// What is there has the same words as what he writes: that it gives more is seen all the same.
			code, body := do(t, http.MethodPatch, collection+"/"+mine, c.patch(getPods+","+aPod), asMerge)
			if code != http.StatusOK {
				t.Errorf("%s, %s, a rule that he holds: %d %s", kind, claim, code, clip(body))
			}
			writesRules(t, do, collection, mine, c.object, c.patch, withSecrets, kind+", "+claim+", the same words")
			for what, rules := range map[string]string{"the harmless one": harmlessRule, "the master": masterRule, "one behind another": getPods + "," + harmlessRule} {
				writesRules(t, do, collection, mine, c.object, c.patch, rules, kind+", "+claim+", "+what)
			}
			for _, word := range wrongWords {
				rules := encode(t, rule{Groups: []string{""}, Resources: []string{word}, Verbs: []string{"get"}})
				code, body := do(t, http.MethodPost, collection, encode(t, c.object(unique("word"), rules)))
				if code != http.StatusForbidden && code != http.StatusUnprocessableEntity {
					t.Errorf("%s, %s: %q in a rule: %d %s", kind, claim, word, code, clip(body))
				}
			}
		}
		if now := a.must(t, http.StatusOK, http.MethodGet, iamAPI+c.collection+"/"+mine, nil).body; strings.Contains(now, "junk") ||
			!strings.Contains(now, `"resources":["pods"]`) || strings.Contains(now, `"pods","secrets"`) {
			t.Errorf("%s was changed: %s", kind, clip(now))
		}
		refusesWords(t, kind, c.collection, c.routes, c.object)
	}
}

// definitionWithoutWords takes the patterns of rules out of a definition, as it was in an earlier installation, until the returned function is called.
func definitionWithoutWords(t *testing.T, plural string) (restore func()) {
	t.Helper()
	path := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + plural + ".iam.kubesphere.io"
	put := func(change func(any)) {
		t.Helper()
		eventually(t, "the definition is written", func(ctx context.Context) error {
			api := kubeClient(t).RESTClient()
			raw, err := api.Get().AbsPath(path).SetHeader("Accept", "application/json").DoRaw(ctx)
			if err != nil {
				return err
			}
			var crd obj
			if err := json.Unmarshal(raw, &crd); err != nil {
				return err
			}
			change(crd["spec"])
			return api.Put().
				AbsPath(path).
				SetHeader("Content-Type", "application/json").
				SetHeader("Accept", "application/json").
				Body([]byte(encode(t, crd))).
				Do(ctx).
				Error()
		})
	}
	var before any
	put(func(spec any) {
		text := encode(t, spec)
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			t.Fatal(err)
		}
		withoutPatterns(spec, false)
	})
	restored := false
	restore = func() {
		if !restored {
			restored = true
			put(func(spec any) { spec.(obj)["versions"] = before.(obj)["versions"] })
		}
	}
	t.Cleanup(restore)
	return restore
}

// withoutPatterns takes patterns and lengths out of the items of "rules".
func withoutPatterns(v any, inRules bool) {
	switch v := v.(type) {
	case obj:
		if inRules {
			if _, ok := v["pattern"].(string); ok {
				delete(v, "pattern")
				delete(v, "maxLength")
			}
		}
		for k, one := range v {
			withoutPatterns(one, inRules || k == "rules")
		}
	case []any:
		for _, one := range v {
			withoutPatterns(one, inRules)
		}
	}
}

// An installation may have had such rules before. They give nothing, here and at kube-apiserver, and an event says so; the rest of the role counts, and can
// be edited.
func TestRulesWithWrongWordsThatAreThereGiveNothing(t *testing.T) { // S63
	proves(t, "S63")
	a, name, ns := admin(t), unique("older"), newNamespace(t)
	u := newUser(t, name)
	restore := definitionWithoutWords(t, "globalroles")
	object := encode(
		t,
		iamObject("GlobalRole", name, obj{"rules": json.RawMessage(`[` + masterRule + `,{"verbs":["list"],"apiGroups":[""],"resources":["configmaps"]}]`)}),
	)
	eventually(t, "a role of an earlier installation is there", func(ctx context.Context) error { // the cluster's superuser, whom no webhook judges
		return kubeClient(
			t,
		).RESTClient().
			Post().
			AbsPath(iamAPI+"/globalroles").
			SetHeader("Content-Type", "application/json").
			SetHeader("Accept", "application/json").
			Body([]byte(object)).
			Do(ctx).
			Error()
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, iamAPI+"/globalroles/"+name, nil) })
	restore()
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(name, name, name))
	eventually(t, "its other rule counts", u.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+ns+"/configmaps"))
	eventually(t, "at kube-apiserver too", func(context.Context) error {
		if code, body := pastIt(t, name, http.MethodGet, "/api/v1/namespaces/"+ns+"/configmaps", ""); code != http.StatusOK {
			return fmt.Errorf("%d %s", code, clip(body))
		}
		return nil
	})
	for _, path := range []string{"/api/v1/namespaces/" + ns + "/secrets", "/api/v1/nodes", iamAPI + "/users"} {
		u.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		if code, body := pastIt(t, name, http.MethodGet, path, ""); code != http.StatusForbidden {
			t.Errorf("past it: %s: %d %s", path, code, clip(body))
		}
	}
	if mirrored := stored(t, "/apis/rbac.authorization.k8s.io/v1/clusterroles"); strings.Contains(mirrored, "ResourceNames:[junk") {
		t.Error("the rule is mirrored")
	}
	eventually(t, "an event names the role and the word", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, "/api/v1/namespaces/default/events?fieldSelector="+url.QueryEscape("reason=RulesIgnored,involvedObject.name="+name), nil)
		if err == nil && !strings.Contains(r.body, "rule 0 gives nothing: verbs has") {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	eventually(
		t,
		"its description can be edited",
		a.accepts(http.StatusOK, http.MethodPatch, iamAPI+"/globalroles/"+name, `{"metadata":{"annotations":{"kubesphere.io/description":"x"}}}`, asMerge),
	)
	more := `[{"op":"add","path":"/rules/-","value":` + getPods + `}]`
	eventually(t, "its rules are not, with the wrong one among them",
		a.accepts(http.StatusUnprocessableEntity, http.MethodPatch, iamAPI+"/globalroles/"+name+"?dryRun=All", more, "Content-Type: application/json-patch+json"))
	a.must(t, http.StatusOK, http.MethodPatch, iamAPI+"/globalroles/"+name, `{"rules":[`+getPods+`]}`, asMerge)
}
