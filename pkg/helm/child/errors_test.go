package child

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/helm"
)

// X29, X33: a 403 because of a quota is no right that is missing, of Kubernetes' quotas and of a workspace's, also within an error of the SDK.
func TestX29AQuotaIsNoMissingRight(t *testing.T) {
	forbidden := func(why string) error {
		return fmt.Errorf("create: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "services"}, "web", errors.New(why)))
	}
	for why, want := range map[string]helm.Error{
		"exceeded quota: shop, requested: services=1, used: services=5, limited: services=5": {Reason: helm.ReasonFailed, Transient: true},
		"failed quota: shop: must specify limits.cpu for: web":                               {Reason: helm.ReasonFailed, Transient: true},
		`User "bob" cannot create resource "services" in API group "" in the namespace "x"`:  {Reason: helm.ReasonForbidden, Transient: true},
	} {
		if got := explain(forbidden(why)); got.Reason != want.Reason || got.Transient != want.Transient {
			t.Errorf("%s: %+v", why, got)
		}
	}
	if helm.IsOverQuota(errors.New("exceeded quota")) {
		t.Error("what is no 403 is taken for a quota")
	}
}
