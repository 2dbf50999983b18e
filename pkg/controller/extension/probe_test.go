package extension_test

import (
	"crypto/tls"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	controller "kapis.dev/ks-apiserver/pkg/controller/extension"
	"kapis.dev/ks-apiserver/pkg/egress"
)

func TestABackendThatWantsACertificateIsReachable(t *testing.T) { // X5, X10
	s := httptest.NewUnstartedServer(nil)
	for version, wants := range map[uint16]tls.ClientAuthType{tls.VersionTLS13: tls.RequireAnyClientCert, tls.VersionTLS12: tls.RequestClientCert} {
		s.Close()
		s = httptest.NewUnstartedServer(nil)
		s.TLS = &tls.Config{ClientAuth: wants, MinVersion: version, MaxVersion: version}
		s.StartTLS()
		e := &v1alpha1.Endpoint{URL: &s.URL, InsecureSkipVerify: true}
		if err := controller.Probe(t.Context(), e, egress.Options{AllowLoopback: true}); err != nil {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
	}
	s.Close()
	if err := controller.Probe(t.Context(), &v1alpha1.Endpoint{URL: &s.URL, InsecureSkipVerify: true}, egress.Options{AllowLoopback: true}); err == nil {
		t.Error("a server that is gone is reachable")
	}
}
