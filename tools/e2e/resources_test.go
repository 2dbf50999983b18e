package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const kapis = "/kapis/resources.kubesphere.io/v1alpha3"

func deployment(name string, replicas int) map[string]any {
	labels := map[string]any{"app": name}
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name, "labels": labels},
		"spec": map[string]any{
			"replicas": replicas, "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "example/web"}}},
			},
		},
	}
}

func TestADeploymentsPodsAreListedRunningFromTheCache(t *testing.T) {
	a, ns := admin(t), newNamespace(t)
	a.create(t, "/apis/apps/v1/namespaces/"+ns+"/deployments", deployment("web", 3))
	path := kapis + "/namespaces/" + ns + "/pods?status=Running&sortBy=name&ascending=true"
	var got list
	eventually(t, "three Running pods", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, path, nil)
		if err != nil {
			return err
		}
		got = decode[list](t, r.body)
		if got.TotalItems == nil || *got.TotalItems != 3 {
			return fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return nil
	})
	if names := got.names(); !slices.IsSorted(names) || len(names) != 3 {
		t.Errorf("not sorted by name: %v", names)
	}
	for _, i := range got.Items {
		if i.Kind != "Pod" || i.APIVersion != "v1" || i.Metadata.Namespace != ns || i.Status["phase"] != "Running" {
			t.Errorf("item %+v", i)
		}
	}
	down := a.list(t, strings.Replace(path, "ascending=true", "ascending=false", 1)).names()
	slices.Reverse(down)
	if !slices.Equal(down, got.names()) { // U20
		t.Errorf("descending is not the reverse: %v and %v", down, got.names())
	}
	t.Run("the other routes answer the same pods", func(t *testing.T) {
		for _, p := range []string{
			kapis + "/pods?namespace=" + ns + "&sortBy=name&ascending=true",
			"/kapi/v1/namespaces/" + ns + "/pods?sortBy=name&ascending=true",
			"/clusters/host" + kapis + "/namespaces/" + ns + "/pods?sortBy=name&ascending=true",
			kapis + "/namespaces/" + ns + "/pods/?sortBy=name&ascending=true",
			"/kapi/v1/namespaces/" + ns + "/pods?sortBy=name&ascending=true&labelSelector=app=none|app=web",
		} {
			l := a.list(t, p)
			if !slices.Equal(l.names(), got.names()) || *l.TotalItems != 3 || l.Metadata.ResourceVersion == "" {
				t.Errorf("%s: %v, total %v, resourceVersion %q", p, l.names(), l.TotalItems, l.Metadata.ResourceVersion)
			}
		}
	})
	t.Run("pages partition the list", func(t *testing.T) {
		var all []string
		for page := 1; page <= 3; page++ {
			l := a.list(t, fmt.Sprintf("%s&limit=1&page=%d", path, page))
			if *l.TotalItems != 3 || len(l.Items) != 1 {
				t.Fatalf("page %d: %v of %d", page, l.names(), *l.TotalItems)
			}
			all = append(all, l.names()...)
		}
		if !slices.Equal(all, got.names()) {
			t.Errorf("pages %v, list %v", all, got.names())
		}
		if l := a.list(t, path+"&limit=1&page=4"); len(l.Items) != 0 || *l.TotalItems != 3 {
			t.Errorf("behind the end: %v of %d", l.names(), *l.TotalItems)
		}
		if l := a.list(t, path+"&limit=0"); len(l.Items) != 0 || *l.TotalItems != 3 {
			t.Errorf("limit=0: %v of %d", l.names(), *l.TotalItems)
		}
	})
	t.Run("the native shape carries the total in continue", func(t *testing.T) {
		l := a.list(t, "/kapi/v1/namespaces/"+ns+"/pods?limit=1&page=2")
		if l.Metadata.Continue != "3" || l.Metadata.RemainingItemCount == nil || *l.Metadata.RemainingItemCount != 1 {
			t.Errorf("metadata %+v", l.Metadata)
		}
	})
	t.Run("one object by name, without managedFields", func(t *testing.T) {
		r := a.must(t, http.StatusOK, http.MethodGet, kapis+"/namespaces/"+ns+"/pods/"+got.names()[0], nil)
		if strings.Contains(r.body, "managedFields") || !strings.Contains(r.body, got.names()[0]) {
			t.Errorf("%s", clip(r.body))
		}
		a.must(t, http.StatusNotFound, http.MethodGet, kapis+"/namespaces/"+ns+"/pods/none", nil)
	})
}

func TestBadQueriesNameTheParameter(t *testing.T) {
	a := admin(t)
	for _, c := range []struct{ query, parameter string }{
		{"limit=ten", "limit"}, {"page=x", "page"}, {"sortBy=colour", "sortBy"}, {"ascending=maybe", "ascending"},
		{"labelSelector=a%20in%20(", "labelSelector"}, {"fieldSelector=%3D%3D%3D", "fieldSelector"},
	} {
		r := a.must(t, http.StatusBadRequest, http.MethodGet, kapis+"/pods?"+c.query, nil)
		if !strings.Contains(r.body, c.parameter) || !strings.Contains(r.body, `"kind":"Status"`) {
			t.Errorf("%s: %s", c.query, r.body)
		}
	}
	a.must(t, http.StatusOK, http.MethodGet, kapis+"/pods?limit=1&colour=blue", nil)
	a.must(t, http.StatusNotFound, http.MethodGet, kapis+"/unicorns", nil)
	a.must(t, http.StatusNotFound, http.MethodGet, "/kapis/example.com/v1/unicorns", nil)
}

func TestSecretsAndPasswordsDoNotTravel(t *testing.T) { // S3, S57, U11
	proves(t, "S3")
	a, ns := admin(t), newNamespace(t)
	a.create(t, "/api/v1/namespaces/"+ns+"/secrets", map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "canary"}, "stringData": map[string]any{"k": "canary-value"},
	})
	name := unique("canary")
	newUser(t, name)
	for _, path := range []string{
		kapis + "/secrets?namespace=" + ns, "/kapi/v1/secrets?namespace=" + ns,
		kapis + "/users/" + name, "/kapis/iam.kubesphere.io/v1beta1/users/" + name, "/kapis/iam.kubesphere.io/v1beta1/users?name=" + name,
	} {
		var body string
		eventually(t, path+" knows it", func(ctx context.Context) error {
			r, err := a.do(ctx, http.MethodGet, path, nil)
			if err == nil && (r.code != http.StatusOK || !strings.Contains(r.body, "canary")) {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			body = r.body
			return err
		})
		for _, secret := range []string{"Y2FuYXJ5LXZhbHVl", "canary-value", "$2a$", `"password"`} {
			if strings.Contains(body, secret) {
				t.Errorf("%s shows %s: %s", path, secret, clip(body))
			}
		}
	}
}

func TestUsersAreFoundByTheirEMailAddress(t *testing.T) { // console: the form asks whether an address is taken
	name := unique("byaddress")
	newUser(t, name)
	users := "/kapis/iam.kubesphere.io/v1beta1/users?fieldSelector=spec.email="
	if l := admin(t).list(t, users+name+"@example.com"); !slices.Equal(l.names(), []string{name}) {
		t.Errorf("%v, want %s alone", l.names(), name)
	}
	if l := admin(t).list(t, users+"undefined"); len(l.Items) != 0 {
		t.Errorf("%v, want none", l.names())
	}
}

func TestAKindCreatedAtRunTimeIsServedWithinASecond(t *testing.T) {
	a := admin(t)
	group := unique("group") + ".example.com"
	crds := "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	crd := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "widgets." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced",
			"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
		},
	}
	a.create(t, crds, crd)
	var established time.Time
	eventually(t, "the CRD is established", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, crds+"/widgets."+group, nil)
		if err == nil && !strings.Contains(strings.ReplaceAll(r.body, " ", ""), `"Established"`) {
			err = fmt.Errorf("%s", clip(r.body))
		}
		established = time.Now()
		return err
	})
	widgets := "/kapis/" + group + "/v1/namespaces/default/widgets"
	eventually(t, "kube-apiserver serves it", a.is(http.StatusOK, http.MethodGet, "/apis/"+group+"/v1/namespaces/default/widgets"))
	a.create(t, "/apis/"+group+"/v1/namespaces/default/widgets", map[string]any{
		"apiVersion": group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "w1"}, "spec": map[string]any{"colour": "red"},
	})
	took := within(t, 5*time.Second, "the kind and its object are listed", func(ctx context.Context) error {
		r, err := a.do(ctx, http.MethodGet, widgets+"?fieldSelector=spec.colour=red", nil)
		if err == nil && (r.code != http.StatusOK || !slices.Equal(decode[list](t, r.body).names(), []string{"w1"})) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	t.Logf("listed %v after kube-apiserver served the object (%v after the CRD was established)", took, time.Since(established))
	a.must(t, http.StatusOK, http.MethodDelete, crds+"/widgets."+group, nil)
	eventually(t, "a deleted kind is gone", a.is(http.StatusNotFound, http.MethodGet, widgets))
}
