package v1alpha2_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	"kapis.dev/ks-apiserver/pkg/api/tenant/v1alpha2"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1alpha2.SchemeGroupVersion, v1alpha2.AddToScheme)
}
