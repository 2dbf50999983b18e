package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
)

// standing is a user and every binding that names him, as kube-apiserver has them.
func standing(t *testing.T, user string) []string {
	t.Helper()
	a := admin(t)
	u := decode[metav1.PartialObjectMetadata](t, a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/users/"+user, nil).body)
	out := []string{fmt.Sprint(u.Name, " ", u.UID, " ", u.DeletionTimestamp)}
	for _, plural := range []string{"globalrolebindings", "clusterrolebindings", "workspacerolebindings", "rolebindings"} {
		list := decode[iamv1beta1.RoleBindingList](t, a.must(t, http.StatusOK, http.MethodGet, iamAPI+"/"+plural, nil).body)
		for i := range list.Items {
			for _, s := range list.Items[i].Subjects {
				if b := &list.Items[i]; s.Name == user {
					out = append(out, fmt.Sprint(plural, " ", b.Name, " ", b.UID, " ", b.RoleRef.Name, " ", b.DeletionTimestamp))
				}
			}
		}
	}
	return out
}

// S22: a dry run of a deletion deletes nobody, whichever way it is asked for, and a dry run of a change of a role takes no role away.
func TestARehearsedDeletionLeavesEverythingAsItWas(t *testing.T) {
	a, ns, w, name := admin(t), newNamespace(t), newWorkspace(t), unique("dry")
	viewer, editor := w+"-viewer", w+"-editor"
	users, inNamespace, inWorkspace := iamRoutes+"/users", iamRoutes+"/namespaces/"+ns+"/namespacemembers", iamRoutes+"/workspaces/"+w+"/workspacemembers"
	for _, r := range []string{"viewer", "operator"} {
		role(t, ns, r, rule{[]string{""}, []string{"configmaps"}, []string{"get"}})
	}
	newUser(t, name)
	for _, path := range []string{"/namespaces/" + ns + "/roles/viewer", "/namespaces/" + ns + "/roles/operator", "/workspaces/" + w + "/workspaceroles/" +
		editor} {
		eventually(t, "the roles are known", a.is(http.StatusOK, http.MethodGet, iamRoutes+path))
	}
	a.must(t, http.StatusOK, http.MethodPatch, users+"/"+name, obj{"metadata": obj{"annotations": obj{"iam.kubesphere.io/globalrole": "platform-regular"}}},
		"Content-Type: application/merge-patch+json")
	a.must(t, http.StatusOK, http.MethodPost, inNamespace, []obj{{"username": name, "roleRef": "viewer"}})
	a.must(t, http.StatusOK, http.MethodPost, inWorkspace, []obj{{"username": name, "roleRef": viewer}})
	a.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/clustermembers", []obj{{"username": name, "roleRef": "cluster-viewer"}})

	before := standing(t, name)
	if len(before) != 5 {
		t.Fatalf("%q", before)
	}
	dry := obj{"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": []any{"All"}}
	for _, c := range []struct {
		method, path string
		body         any
		header       []string
	}{
		{http.MethodDelete, users + "/" + name + "?dryRun=All", nil, nil},
		{http.MethodDelete, users + "/" + name, dry, nil},
		{http.MethodDelete, inNamespace + "/" + name + "?dryRun=All", nil, nil},
		{http.MethodDelete, inNamespace + "/" + name, dry, nil},
		{http.MethodDelete, inWorkspace + "/" + name + "?dryRun=All", dry, nil},
		{http.MethodDelete, iamRoutes + "/clustermembers/" + name + "?dryRun=All", nil, nil},
		{http.MethodPut, inNamespace + "/" + name + "?dryRun=All", obj{"username": name, "roleRef": "operator"}, nil},
		{http.MethodPut, inWorkspace + "/" + name + "?dryRun=All", obj{"username": name, "roleRef": editor}, nil},
		{http.MethodPost, inNamespace + "?dryRun=All", []obj{{"username": name, "roleRef": "operator"}}, nil},
		{http.MethodPatch, users + "/" + name + "?dryRun=All", obj{"metadata": obj{"annotations": obj{"iam.kubesphere.io/globalrole": "platform-self-provisioner"}}},
			[]string{"Content-Type: application/merge-patch+json"}},
		{http.MethodDelete, iamRoutes + "/workspaces/" + w + "/workspaceroles/" + editor + "?dryRun=All", nil, nil},
	} {
		a.must(t, http.StatusOK, c.method, c.path, c.body, c.header...)
		if now := standing(t, name); !slices.Equal(now, before) {
			t.Errorf("%s %s: before\n%q\nnow\n%q", c.method, c.path, before, now)
			before = now
		}
	}

	for _, path := range []string{"/sessions", "/apikeys", "/factors"} { // a write without dry run is not done in place of one
		a.must(t, http.StatusBadRequest, http.MethodDelete, users+"/"+name+path+"?dryRun=All", nil)
	}

	a.must(t, http.StatusOK, http.MethodDelete, inNamespace+"/"+name, nil)
	if err := a.showsMembers(inNamespace, "role")(t.Context()); err != nil { // at once: a deletion is answered when this server has seen it
		t.Error(err)
	}
	a.must(t, http.StatusOK, http.MethodDelete, users+"/"+name, nil)
}
