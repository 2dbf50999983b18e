package v1alpha1_test

import (
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v1alpha1.SchemeGroupVersion, v1alpha1.AddToScheme)
}
