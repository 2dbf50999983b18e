package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// S6, S7: whoever may do everything in one workspace writes objects of the cluster that carry its label. By none of them does he reach beyond it.
func TestWhoManagesAWorkspaceStaysInIt(t *testing.T) {
	proves(t, "S6", "S7")
	a := admin(t)
	ws, name, u := workspaceRole(t, rule{[]string{"*"}, []string{"*"}, []string{"*"}})
	iamIn, quotaIn := "/kapis/iam.kubesphere.io/v1beta1/workspaces/"+ws, "/kapis/quota.kubesphere.io/v1alpha2/workspaces/"+ws
	of := func(group, kind, name string, more obj) obj {
		o := obj{"apiVersion": group, "kind": kind, "metadata": obj{"name": name}}
		for k, v := range more {
			o[k] = v
		}
		return o
	}
	const iamGroup = "iam.kubesphere.io/v1beta1"

	// A group that Kubernetes' own binding names, and one that an identity provider gives.
	native, corp, own := unique("oncall"), unique("corp"), unique("team")
	a.create(t, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", of("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", native, obj{
		"roleRef":  obj{"apiGroup": nativeRBAC, "kind": "ClusterRole", "name": "cluster-admin"},
		"subjects": []any{obj{"apiGroup": nativeRBAC, "kind": "Group", "name": native}},
	}))
	a.create(t, iamAPI+"/globalrolebindings", of(iamGroup, "GlobalRoleBinding", corp, obj{
		"roleRef":  obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "platform-admin"},
		"subjects": []any{obj{"apiGroup": nativeRBAC, "kind": "Group", "name": corp}},
	}))
	eventually(t, "he makes a group of his own", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodPost, iamIn+"/groups", of(iamGroup, "Group", own, nil))
		if err == nil && r.code != http.StatusOK && r.code != http.StatusConflict {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		return err
	})
	for _, group := range []string{native, corp} {
		eventually(t, "nobody makes the group "+group, func(ctx context.Context) error {
			r, err := u.do(ctx, http.MethodPost, iamIn+"/groups?dryRun=All", of(iamGroup, "Group", group, nil))
			if err == nil && (r.code != http.StatusForbidden || !strings.Contains(r.body, "bindings name a group of this name")) {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
	}

	// The object beside its template, which is what is protected.
	object := "/apis/tenant.kubesphere.io/v1beta1/workspaces/" + ws
	u.must(t, http.StatusOK, http.MethodGet, object, nil)
	u.must(t, http.StatusForbidden, http.MethodDelete, object, nil)

	// A quota of everybody's namespaces.
	elsewhere, here := newNamespace(t), unique("mine")
	u.must(t, http.StatusOK, http.MethodPost, tenants+"/workspaces/"+ws+"/namespaces", obj{"metadata": obj{"name": here}})
	t.Cleanup(func() { _, _ = admin(t).do(context.Background(), http.MethodDelete, "/api/v1/namespaces/"+here, nil) })
	all := unique("all")
	u.must(t, http.StatusOK, http.MethodPost, quotaIn+"/resourcequotas", of("quota.kubesphere.io/v1alpha2", "ResourceQuota", all, obj{
		"spec": obj{"selector": obj{}, "quota": obj{"hard": obj{"count/configmaps": "1"}}},
	}))
	t.Cleanup(func() {
		_, _ = admin(t).do(context.Background(), http.MethodDelete, "/apis/quota.kubesphere.io/v1alpha2/resourcequotas/"+all, nil)
	})
	eventually(t, "his own namespace is counted", func(ctx context.Context) error {
		r, err := u.do(ctx, http.MethodGet, quotaIn+"/resourcequotas/"+all, nil)
		if err == nil && !strings.Contains(r.body, here) {
			err = fmt.Errorf("%d %s", r.code, clip(r.body))
		}
		if err == nil && (strings.Contains(r.body, elsewhere) || strings.Contains(r.body, "kube-system")) {
			t.Errorf("%s sees what others use: %s", name, clip(r.body))
		}
		return err
	})
	configMap := of("v1", "ConfigMap", unique("map"), nil)
	a.create(t, "/api/v1/namespaces/"+elsewhere+"/configmaps", configMap)
	// The one that Kubernetes makes in each namespace is counted, and kube-apiserver asks the webhook about ConfigMaps.
	eventually(t, "his own is full", a.accepts(http.StatusForbidden, http.MethodPost, "/api/v1/namespaces/"+here+"/configmaps?dryRun=All", configMap))
	a.must(t, http.StatusForbidden, http.MethodPost, "/api/v1/namespaces/"+here+"/configmaps", configMap)
}
