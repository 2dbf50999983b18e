package v1beta1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/app/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1beta1.SchemeGroupVersion, v1beta1.AddToScheme)
}
