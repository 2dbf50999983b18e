package v1alpha2_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/gateway/v1alpha2"
	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1alpha2.SchemeGroupVersion, v1alpha2.AddToScheme)
}
