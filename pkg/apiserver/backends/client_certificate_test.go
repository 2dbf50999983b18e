package backends_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"kapis.dev/ks-apiserver/pkg/apiserver/backends"
	"kapis.dev/ks-apiserver/pkg/certificate"
)

const system = "kubesphere-system"

// shipped is the ConfigMap for backends as an installation has it.
var shipped = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: backends.ConfigMapOfProof}}

// published returns what the ConfigMap for backends says.
func published(t *testing.T, kube *fake.Clientset) map[string]string {
	t.Helper()
	m, err := kube.CoreV1().ConfigMaps(system).Get(t.Context(), backends.ConfigMapOfProof, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data
}

// shownTo returns whose certificates a backend sees that asks for those of some authorities, and whether they are verified.
func shownTo(t *testing.T, proof *backends.ClientCertificate, authorities string) (names []string, verified bool) {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(authorities))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for _, c := range r.TLS.PeerCertificates {
			names = append(names, c.Subject.CommonName)
			_, err := c.Verify(x509.VerifyOptions{Roots: pool, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
			verified = err == nil
		}
	}))
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	client := s.Client()
	client.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate = proof.Get
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return names, verified
}

// X5: a backend verifies by a ConfigMap, with the keys that Kubernetes has for that, that this server and nobody else asks.
func TestX5ABackendVerifiesThisServerByItsCertificate(t *testing.T) {
	kube, proof, replica := fake.NewClientset(shipped.DeepCopy()), &backends.ClientCertificate{}, &backends.ClientCertificate{}
	if names, _ := shownTo(t, proof, ""); len(names) > 0 {
		t.Errorf("before there is a certificate, it is that of %v", names)
	}
	for _, one := range []*backends.ClientCertificate{proof, replica, proof} {
		if err := one.Keep(t.Context(), kube); err != nil {
			t.Fatal(err)
		}
	}
	says := published(t, kube)
	for key, want := range map[string]string{"requestheader-allowed-names": "ks-apiserver", "requestheader-username-headers": "X-Remote-User",
		"requestheader-uid-headers": "X-Remote-Uid", "requestheader-group-headers": "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-"} {
		var list []string
		if err := json.Unmarshal([]byte(says[key]), &list); err != nil || !slices.Equal(list, []string{want}) {
			t.Errorf("%s is %s, want %s", key, says[key], want)
		}
	}
	ours := says["requestheader-client-ca-file"]
	for _, one := range []*backends.ClientCertificate{proof, replica} {
		if names, verified := shownTo(t, one, ours); !slices.Equal(names, []string{"ks-apiserver"}) || !verified {
			t.Errorf("the certificate is that of %v, verified: %t", names, verified)
		}
	}
	other, err := certificate.Open(t.Context(), certificate.Options{Secrets: fake.NewClientset().CoreV1().Secrets(system), Name: "other", Client: true,
		CommonName: "other", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if names, _ := shownTo(t, proof, string(other.Bundle())); len(names) > 0 {
		t.Errorf("a backend that trusts another authority is shown the certificate of %v", names)
	}
}

func TestX5WhatBackendsVerifyByIsRestoredAndASettledOneIsNotWritten(t *testing.T) {
	kube, proof := fake.NewClientset(shipped.DeepCopy()), &backends.ClientCertificate{}
	keep := func() {
		t.Helper()
		if err := proof.Keep(t.Context(), kube); err != nil {
			t.Fatal(err)
		}
	}
	keep()
	says := published(t, kube)
	kube.ClearActions()
	keep()
	for _, a := range kube.Actions() {
		if a.GetVerb() != "get" {
			t.Errorf("a settled certificate: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
	maps := kube.CoreV1().ConfigMaps(system)
	m, err := maps.Get(t.Context(), backends.ConfigMapOfProof, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Data = map[string]string{"requestheader-client-ca-file": "another authority"}
	if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	keep()
	if got := published(t, kube); got["requestheader-client-ca-file"] != says["requestheader-client-ca-file"] || len(got) != len(says) {
		t.Errorf("what was changed stays: %v", got)
	}
	if err := maps.Delete(t.Context(), backends.ConfigMapOfProof, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.ClearActions()
	if err := proof.Keep(t.Context(), kube); err == nil || !strings.Contains(err.Error(), "config/rbac/ks-apiserver.yaml") {
		t.Errorf("without the ConfigMap: %v", err)
	}
	for _, a := range kube.Actions() {
		if a.GetVerb() == "create" {
			t.Errorf("it is made by %s", a.GetResource().Resource)
		}
	}
	if _, err := maps.Create(t.Context(), shipped.DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	keep()
	if got := published(t, kube); got["requestheader-client-ca-file"] != says["requestheader-client-ca-file"] {
		t.Errorf("what is installed again is not filled in: %v", got)
	}
}
