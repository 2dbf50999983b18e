package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
)

const peopleAPI = "/kapis/iam.kubesphere.io/v1beta1"

// runs makes somebody an administrator of workspaces.
func runs(t *testing.T, name string, workspaces ...string) {
	t.Helper()
	for _, w := range workspaces {
		body := []obj{{"username": name, "roleRef": w + "-admin"}}
		eventually(t, "the workspace has its roles", func(ctx context.Context) error {
			r, err := admin(t).do(ctx, http.MethodPost, peopleAPI+"/workspaces/"+w+"/workspacemembers", encode(t, body))
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
	}
}

// U51, S7: who runs two workspaces moves a namespace from one to the other, and nobody else does, in no other way.
func TestANamespaceIsMovedByWhoRunsBothWorkspaces(t *testing.T) {
	mine, theirs := newWorkspaceOf(t), newWorkspaceOf(t)
	ns := projectIn(t, mine)
	names := []string{unique("both"), unique("giver"), unique("taker")}
	both, giver, taker := newUser(t, names[0]), newUser(t, names[1]), newUser(t, names[2])
	runs(t, names[0], mine, theirs)
	runs(t, names[1], mine)
	runs(t, names[2], theirs)
	to := tenants + "/workspaces/" + theirs + "/namespaceassignments"
	move := func(c caller, namespace, want string) func(context.Context) error {
		return func(ctx context.Context) error {
			r, err := c.do(ctx, http.MethodPost, to, encode(t, obj{"namespaces": []string{namespace}}))
			if err == nil && (r.code != http.StatusOK || !strings.Contains(r.body, want)) {
				err = fmt.Errorf("%d %s, want %s", r.code, clip(r.body), want)
			}
			return err
		}
	}
	giver.must(t, http.StatusForbidden, http.MethodPost, to, obj{"namespaces": []string{ns}})
	eventually(t, "who runs the other alone takes nothing", move(taker, ns, `"code":403`))
	eventually(t, "nothing of the system is moved", move(both, "kube-system", `"result":"Failed"`))
	label := `{"metadata":{"labels":{"` + workspaceLabel + `":"` + theirs + `"}}}`
	for _, path := range []string{"/api/v1/namespaces/" + ns, "/kapi/v1/namespaces/" + ns} {
		both.must(t, http.StatusForbidden, http.MethodPatch, path, label, asMerge)
	}
	eventually(t, "who runs both moves it", move(both, ns, `"result":"Moved"`))
	eventually(t, "it is there", admin(t).holds(tenants+"/workspaces/"+theirs+"/namespaces", ns))
}

// S6: who may patch every template, as everybody may who is logged in in some existing installations, takes no workspace over by it.
func TestAWorkspaceIsNotTakenOverByItsTemplate(t *testing.T) {
	a, w, name := admin(t), newWorkspaceOf(t), unique("patcher")
	u := newUser(t, name)
	a.create(t, iamAPI+"/globalroles", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRole", "metadata": obj{"name": name},
		"rules": []obj{{"apiGroups": []string{"tenant.kubesphere.io"}, "resources": []string{"workspacetemplates"}, "verbs": []string{"get", "patch"}}}})
	a.create(t, iamAPI+"/globalrolebindings", obj{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding", "metadata": obj{"name": name},
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": name},
		"subjects": []obj{{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}}})
	path := tenantAPI + "/workspacetemplates/" + w
	note := `{"metadata":{"annotations":{"a":"b"}}}`
	eventually(t, "his right to patch it is there, and not enough", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPatch, path, note, asMerge)
		if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, "by those who may update it")) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	for _, patch := range []string{
		note, `{"spec":{"template":{"spec":{"manager":"` + name + `"}}}}`, `{"spec":{"placement":{"clusters":[]}}}`, `{"spec":{"placement":{"clusterSelector":{}}}}`,
		`{"metadata":{"labels":{"kubesphere.io/protected-resource":"true"}}}`, `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`,
	} {
		u.must(t, http.StatusForbidden, http.MethodPatch, path, patch, asMerge)
		u.must(t, http.StatusForbidden, http.MethodPatch, "/kapis"+strings.TrimPrefix(path, "/apis"), patch, asMerge)
	}
}

// S1, S3: what every page asks is answered, by what concerns the one who asks.
func TestPeopleFindThemselvesAndWhomToInvite(t *testing.T) {
	w := newWorkspaceOf(t)
	names := []string{unique("alone"), unique("host")}
	alone, host := newUser(t, names[0]), newUser(t, names[1])
	runs(t, names[1], w)
	if err := alone.holds(peopleAPI+"/users?sortBy=createTime&limit=10", names[0])(t.Context()); err != nil {
		t.Error(err)
	}
	eventually(t, "who invites finds others", func(ctx context.Context) error {
		r, err := host.do(ctx, http.MethodGet, peopleAPI+"/users?names=admin&limit=-1", nil)
		if err == nil && (r.code != http.StatusOK || !strings.Contains(r.body, `"name":"admin"`)) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	for _, accept := range []string{"application/json", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/yaml"} {
		r := host.must(t, http.StatusOK, http.MethodGet, peopleAPI+"/users?limit=-1", nil, "Accept: "+accept)
		for _, private := range []string{`"email"`, `"spec"`, `"labels"`, `"uid"`, " email:", " spec:", " labels:", " uid:"} {
			if strings.Contains(r.body, private) {
				t.Errorf("%s: there is %s in %s", accept, private, clip(r.body))
			}
		}
	}
	if err := host.holds(peopleAPI+"/users?fieldSelector=spec.lang!=x", names[1])(t.Context()); err != nil {
		t.Error(err)
	}
	host.must(t, http.StatusForbidden, http.MethodGet, peopleAPI+"/users/admin", nil)
	for _, path := range []string{"/workspaces/" + w, "/clusters/host"} {
		host.must(t, http.StatusOK, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3"+path, nil)
		alone.must(t, http.StatusForbidden, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3"+path, nil)
	}
}

// S3: an object is written back at /apis by who read it there without what no read shows, and keeps that.
func TestAnObjectWrittenBackKeepsWhatWasNotShown(t *testing.T) {
	_, c := cluster(t)
	o := &clusterv1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: unique("member")}}
	o.Spec.Connection.KubeConfig = []byte("canary")
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.Background(), o) })
	path := "/apis/cluster.kubesphere.io/v1alpha1/clusters/" + o.Name
	eventually(t, "it is written back", func(ctx context.Context) error {
		r, err := admin(t).do(ctx, http.MethodGet, path, nil)
		if err == nil && (r.code != http.StatusOK || strings.Contains(r.body, `"kubeconfig":`)) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		if err != nil {
			return err
		}
		var read obj
		if err := json.Unmarshal([]byte(r.body), &read); err != nil {
			return err
		}
		if r, err = admin(t).do(ctx, http.MethodPut, path, encode(t, read)); err == nil && r.code != http.StatusOK {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil || string(o.Spec.Connection.KubeConfig) != "canary" {
		t.Errorf("it has %q, %v", o.Spec.Connection.KubeConfig, err)
	}
}
