package e2e

import (
	"context"
	_ "embed" // the requests
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata/release-3.4.txt
var golden string

func TestClientsOfRelease34(t *testing.T) { // O24, O26, O27, O41
	a, ws, name, ns := admin(t), unique("release34"), unique("rolekeeper"), newNamespace(t)
	newTeam(t, ws)
	u := newUser(t, name)
	role(t, ns, "viewer", rule{[]string{""}, []string{"configmaps"}, []string{"get"}})
	eventually(t, "the role is known", a.is(http.StatusOK, http.MethodGet, iamRoutes+"/namespaces/"+ns+"/roles/viewer"))
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(strings.NewReplacer("$W", ws, "$U", name, "$N", ns).Replace(golden)), "\n"),
		func(line string) bool { return strings.HasPrefix(line, "#") })
	for i := 0; i+1 < len(lines); i += 2 {
		f := strings.SplitN(lines[i], " ", 3)
		var body any
		if len(f) > 2 {
			body = f[2]
		}
		r, err := a.whenLoaded(t.Context(), f[0], "/kapis/"+f[1], body)
		if err != nil {
			t.Fatal(err)
		}
		code, texts, _ := strings.Cut(lines[i+1], " ")
		for _, text := range strings.Split(texts, ", ") {
			if fmt.Sprint(r.code) != code || !strings.Contains(r.body, text) {
				t.Errorf("%s\n  %d %s\n  want %s %s", lines[i], r.code, clip(r.body), code, text)
			}
		}
	}

	roles := "/kapis/iam.kubesphere.io/v1alpha2/workspaces/" + ws + "/workspaceroles"
	keeper := roles + "/keeper-" + ws
	step(t, "a creation with a version is an update", func(t *testing.T) {
		eventually(t, "the rules are those of the templates", a.has(keeper, `"rules":[{`, `"iam.kubesphere.io/aggregation-roles":"[\"workspace-view-roles\",`))
		eventually(t, "it is updated", func(ctx context.Context) error { // the controller may come between
			r, err := a.do(ctx, http.MethodGet, keeper, nil)
			if err != nil {
				return err
			}
			o := decode[obj](t, r.body)
			o["metadata"].(obj)["annotations"].(obj)["kubesphere.io/description"] = "changed by POST"
			if r, err = a.do(ctx, http.MethodPost, roles, o); err == nil && (r.code != http.StatusOK || !strings.Contains(r.body, "changed by POST")) {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
	})
	step(t, "nobody makes a role of more than they hold", func(t *testing.T) { // O26
		eventually(t, "the binding counts", u.is(http.StatusOK, http.MethodGet, keeper))
		make := func(template string) obj {
			return obj{"metadata": obj{"name": unique("made"), "annotations": obj{"iam.kubesphere.io/aggregation-roles": `["` + template + `"]`}}}
		}
		eventually(t, "what they hold may be given", func(ctx context.Context) error {
			r, err := u.do(ctx, http.MethodPost, roles, make("role-template-view-roles"))
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
		u.must(t, http.StatusForbidden, http.MethodPost, roles, make("role-template-manage-members"))
		u.must(t, http.StatusForbidden, http.MethodPatch, keeper, obj{"metadata": obj{"annotations": obj{
			"iam.kubesphere.io/aggregation-roles": `["role-template-manage-members"]`}}}, "Content-Type: application/merge-patch+json")
		u.must(t, http.StatusForbidden, http.MethodPost, roles[:strings.LastIndex(roles, "/")]+"/workspacerolebindings", []obj{{
			"subjects": []obj{{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}},
			"roleRef":  obj{"kind": "WorkspaceRole", "name": ws + "-admin"},
		}})
		u.must(t, http.StatusOK, http.MethodGet, "/kapis/tenant.kubesphere.io/v1alpha2/federatednamespaces", nil)
		anonymous().must(t, http.StatusForbidden, http.MethodGet, "/kapis/tenant.kubesphere.io/v1alpha2/federatednamespaces", nil)
	})
	step(t, "a login at a provider is the password grant, for trusted clients", func(t *testing.T) {
		r := anonymous().must(t, http.StatusBadRequest, http.MethodPost, "/oauth/login/none", "username=a&password=b",
			"Content-Type: application/x-www-form-urlencoded")
		if !strings.Contains(r.body, "invalid_client") {
			t.Errorf("%s", r.body)
		}
	})
}

//go:embed testdata/release-3.4-routes.txt
var routes34 string

// Every route of release 3.4 is answered, or is a 404 whose sentence says why: none is unknown, and none is another method's.
func TestEveryRouteOfRelease34IsAnswered(t *testing.T) { // O24, O41
	a, w, user := admin(t), newTenant(t, unique("routes34")), unique("older")
	newUser(t, user)
	counted, counts := 0, 0
	for line := range strings.Lines(strings.NewReplacer("$W", w.workspace, "$U", user, "$N", w.namespace).Replace(routes34)) {
		line = strings.TrimSpace(line)
		if _, n, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(line, "#") {
			if count, err := strconv.Atoi(n); err == nil {
				counts += count
			}
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		counted++
		f := strings.Fields(line)
		method, path, want := f[0], "/kapis/"+f[1], f[2]
		var body any
		var headers []string
		if method != http.MethodGet {
			body = obj{}
		}
		if method == http.MethodPatch {
			headers = []string{"Content-Type: application/merge-patch+json"}
		}
		r, err := a.whenLoaded(t.Context(), method, path, body, headers...)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case fmt.Sprint(r.code) != want:
			t.Errorf("%s %s: %d %s, want %s", method, path, r.code, clip(r.body), want)
		case r.code >= http.StatusBadRequest:
			s := decode[struct{ Message, Reason string }](t, r.body)
			if s.Message == "" || strings.Contains(s.Message, "is not supported") || s.Reason == "NotFound" && !says404(s.Message) {
				t.Errorf("%s %s: %d %s", method, path, r.code, clip(r.body))
			}
		}
	}
	if counted != counts || counted < 150 {
		t.Errorf("%d routes were sent, and %d are counted", counted, counts)
	}
}

// says404 reports whether a message names the object that is not there, or says why the route is not.
func says404(message string) bool {
	return slices.ContainsFunc([]string{" not found", " is not served: ", "no cluster joins this one", "are not stored"}, func(part string) bool {
		return strings.Contains(message, part)
	})
}
