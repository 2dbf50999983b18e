package shipped_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/admission/shipped"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

func TestRolesOfEveryInstallationAreKnown(t *testing.T) { // S6
	for _, ref := range []authz.RoleRef{{Name: "platform-admin"}, {Scope: request.Cluster, Name: "cluster-admin"}} {
		r, found := shipped.RoleOf(ref)
		if !found || len(r.Rules) != 2 || r.Rules[0].Resources[0] != "*" || r.Templates == nil || len(r.Templates.TemplateNames) == 0 {
			t.Errorf("%v: %t, %+v", ref, found, r)
		}
	}
	// It lists a template for pages, and takes no rules from it.
	if r, found := shipped.RoleOf(authz.RoleRef{Name: "platform-self-provisioner"}); !found || len(r.Rules) == 0 || r.Templates != nil {
		t.Errorf("%t, %+v", found, r)
	}
	for _, ref := range []authz.RoleRef{{Name: "cluster-admin"}, {Scope: request.Cluster, Name: "platform-admin"}, {Name: "mine"}} {
		if _, found := shipped.RoleOf(ref); found {
			t.Errorf("%v is known", ref)
		}
	}
	if one := shipped.Templates()["global-manage-clusters"]; one == nil || len(one.Spec.Rules) == 0 || len(shipped.Templates()) < 60 {
		t.Errorf("%d templates, %+v", len(shipped.Templates()), one)
	}
}
