package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// S7: a namespace is moved to another workspace, out of its own, or below its pod security by nobody who may do
// everything in it. Its sub-resources are ways to its labels too.
func TestANamespaceIsNotMovedByWhoOwnsIt(t *testing.T) {
	proves(t, "S7", "S8")
	a := admin(t)
	ns, mine, theirs, name := newNamespace(t), unique("mine"), unique("theirs"), unique("owner")
	const guarded = "the workspace and the pod security of a namespace"
	labels := func(l string) string { return `{"metadata":{"labels":{` + l + `}}}` }
	whole := func(l string) string {
		return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"` + ns + `","labels":{` + l + `}},"spec":{"finalizers":["kubernetes"]}}`
	}
	home := `"` + workspaceLabel + `":"` + mine + `"`
	a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+ns, labels(home), asMerge)
	owner := newUser(t, name)
	role(t, ns, "owner", rule{[]string{"*"}, []string{"*"}, []string{"*"}})
	bind(t, ns, "owner", map[string]any{"kind": "User", "name": name})
	for _, root := range []string{"/api/v1/namespaces/", "/kapi/v1/namespaces/"} {
		for _, sub := range []string{"", "/status"} {
			eventually(t, "the owner writes "+root+sub, func(ctx context.Context) error {
				r, err := owner.do(ctx, http.MethodPatch, root+ns+sub, labels(`"free":"x"`), asMerge)
				if err == nil && r.code != http.StatusOK {
					err = fmt.Errorf("%d %s", r.code, clip(r.body))
				}
				return err
			})
		}
		for _, l := range []string{
			`"` + workspaceLabel + `":"` + theirs + `"`, `"` + workspaceLabel + `":null`, `"pod-security.kubernetes.io/enforce":"privileged"`,
		} {
			for _, sub := range []string{"", "/status"} {
				if r := owner.must(t, http.StatusForbidden, http.MethodPatch, root+ns+sub, labels(l), asMerge); !strings.Contains(r.body, guarded) {
					t.Errorf("%s%s %s: %s", root, sub, l, clip(r.body))
				}
			}
		}
		for _, sub := range []string{"", "/status", "/finalize"} {
			if r := owner.must(t, http.StatusForbidden, http.MethodPut, root+ns+sub, whole(`"a":"b"`)); !strings.Contains(r.body, guarded) {
				t.Errorf("%s%s: %s", root, sub, clip(r.body))
			}
		}
		owner.must(t, http.StatusOK, http.MethodPut, root+ns+"/finalize", whole(home))
	}
	a.must(t, http.StatusOK, http.MethodPatch, "/api/v1/namespaces/"+ns+"/status", labels(`"`+workspaceLabel+`":"`+theirs+`"`), asMerge)
}

// S8: whoever may create namespaces by a role of a workspace chooses neither their pod security nor that nobody may delete them, nor a name of the
// system's, of an extension's, or one where search lists look for Services of others.
func TestANamespaceOfAWorkspaceIsBornPlain(t *testing.T) {
	ws, _, u := workspaceRole(t, rule{[]string{"", "tenant.kubesphere.io"}, []string{"namespaces"}, []string{"get", "create"}})
	whole := func(name, label, value string) obj {
		labels := obj{workspaceLabel: ws}
		if label != "" {
			labels[label] = value
		}
		return obj{"apiVersion": "v1", "kind": "Namespace", "metadata": obj{"name": name, "labels": labels}}
	}
	born := unique("born")
	t.Cleanup(func() { _, _ = admin(t).do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+born, nil) })
	all := "/kapi/v1/workspaces/" + ws + "/namespaces"
	eventually(t, "a member makes a namespace", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, all, whole(born, "", ""))
		if err == nil && r.code != http.StatusOK && r.code != http.StatusConflict {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	for _, path := range []string{all, tenants + "/workspaces/" + ws + "/namespaces"} {
		for _, reserved := range []string{unique("kube-mine"), unique("kubesphere-mine"), unique("extension-mine"), "svc"} {
			if r := u.must(t, http.StatusForbidden, http.MethodPost, path, whole(reserved, "", "")); !strings.Contains(r.body, "system") {
				t.Errorf("%s %s: %s", path, reserved, clip(r.body))
			}
		}
		for label, value := range map[string]string{"pod-security.kubernetes.io/enforce": "privileged", "kubesphere.io/protected-resource": ""} {
			name := unique("hard")
			if r := u.must(t, http.StatusForbidden, http.MethodPost, path, whole(name, label, value)); !strings.Contains(r.body, "who may update all namespaces") {
				t.Errorf("%s %s: %s", path, label, clip(r.body))
			}
			admin(t).must(t, http.StatusNotFound, http.MethodGet, "/api/v1/namespaces/"+name, nil)
		}
	}
}

// S7, S8: kube-apiserver knows a role with a condition without the condition. Whoever may edit some namespaces by one moves none of them, and lowers
// the pod security of none; nor is whoever may edit their own User by one, and delete none, a manager of users.
func TestARightToSomeNamespacesIsNoRightToAll(t *testing.T) {
	proves(t, "S7", "S8")
	ns, ws, name := newNamespace(t), unique("mine"), unique("some")
	at, self := "/api/v1/namespaces/"+ns, iamAPI+"/users/"+name
	u := withRole(t, name, obj{
		"metadata": obj{"name": name, "annotations": obj{"iam.kubesphere.io/cel-condition": `request.verb != "delete" && (request.namespace == "` + ns +
			`" || request.resource == "users" && request.name == user.name)`}},
		"rules": []rule{
			{[]string{""}, []string{"namespaces"}, []string{"get", "update", "patch", "delete"}},
			{[]string{"iam.kubesphere.io"}, []string{"users"}, []string{"get", "update", "patch", "delete"}},
		},
	})
	move := `{"metadata":{"labels":{"` + workspaceLabel + `":"` + ws + `"}}}`
	eventually(t, "the condition lets the namespace be edited", u.accepts(http.StatusOK, http.MethodPatch, at, `{"metadata":{"labels":{"free":"x"}}}`, asMerge))
	eventually(t, "and the user's own object",
		u.accepts(http.StatusOK, http.MethodPatch, self, `{"metadata":{"annotations":{"kubesphere.io/description":"x"}}}`, asMerge))
	for _, c := range []struct{ path, patch, why string }{
		{at, move, "who may update all namespaces"},
		{at, `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, "who may update all namespaces"},
		{at, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"gone"}]}}`, "metadata.ownerReferences"},
		{self, `{"metadata":{"labels":{"free":"x"}}}`, "their own object"},
	} {
		if r := u.must(t, http.StatusForbidden, http.MethodPatch, c.path, c.patch, asMerge); !strings.Contains(r.body, c.why) {
			t.Errorf("%s: %s", c.patch, clip(r.body))
		}
	}

	// A right to all namespaces counts, whatever else its holder has.
	all, a := unique("all"), admin(t)
	rules := []rule{{[]string{""}, []string{"namespaces"}, []string{"get", "update", "patch"}}}
	a.create(t, iamAPI+"/globalroles", iamObject("GlobalRole", all, obj{"rules": rules}))
	a.create(t, iamAPI+"/globalrolebindings", globalBinding(all, all, name))
	eventually(t, "who may update all namespaces moves one", u.accepts(http.StatusOK, http.MethodPatch, at, move, asMerge))
}
