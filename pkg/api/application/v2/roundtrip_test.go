package v2_test

import (
	"testing"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/api/internal/crdtest"
)

func TestNothingIsLost(t *testing.T) {
	crdtest.RoundTrip(t, v2.SchemeGroupVersion, v2.AddToScheme)
}
