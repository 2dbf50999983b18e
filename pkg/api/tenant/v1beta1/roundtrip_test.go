package v1beta1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	"kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1beta1.SchemeGroupVersion, v1beta1.AddToScheme)
}
