package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"kapis.dev/ks-apiserver/pkg/kube"
)

func TestUsersReachKubeAPIServerByHTTPSOnly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, []byte("filed"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cluster                    rest.Config
		address                    string
		server, authority, failure string
	}{
		"OurOwn":        {rest.Config{Host: "https://a:6443/", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")}}, "", "https://a:6443", "ca", ""},
		"TheConfigured": {rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAFile: file}}, "https://b", "https://b", "filed", ""},
		"TheMachines":   {rest.Config{Host: "https://a"}, "", "https://a", "", ""},
		"PlainHTTP":     {rest.Config{Host: "http://a"}, "", "", "", "kubeconfig.kubernetesServer"},
		"NoSuchFile":    {rest.Config{Host: "https://a", TLSClientConfig: rest.TLSClientConfig{CAFile: file + "x"}}, "", "", "", "vouches"},
	} {
		t.Run(name, func(t *testing.T) {
			server, authority, err := kube.Endpoint(&c.cluster, c.address)
			if server != c.server || string(authority) != c.authority || (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
				t.Errorf("%s, %s, %v", server, authority, err)
			}
		})
	}
}
