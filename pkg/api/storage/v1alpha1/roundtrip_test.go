package v1alpha1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
	"kapis.dev/ks-apiserver/pkg/api/storage/v1alpha1"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme)
}
