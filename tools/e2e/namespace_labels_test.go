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
