package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/config"
)

// folder makes a folder with files, by their paths in it.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// As the Deployments mount them: the Secret's file in the folder, the ConfigMap's below it.
func TestTheSecretsFileIsReadAndElseTheConfigMaps(t *testing.T) {
	const secret, configMap = "authentication: {issuer: {url: https://secret.example}}", "authentication: {issuer: {url: https://configmap.example}}"
	for name, c := range map[string]struct {
		files map[string]string
		want  string // the issuer, or a part of the error
	}{
		"Both":            {map[string]string{"kubesphere.yaml": secret, "configmap/kubesphere.yaml": configMap}, "https://secret.example"},
		"Secret":          {map[string]string{"kubesphere.yaml": secret}, "https://secret.example"},
		"ConfigMap":       {map[string]string{"configmap/kubesphere.yaml": configMap}, "https://configmap.example"},
		"AnEmptySecret":   {map[string]string{"kubesphere.yaml": "", "configmap/kubesphere.yaml": configMap}, config.Default().Authentication.Issuer.URL},
		"ABadSecret":      {map[string]string{"kubesphere.yaml": "colour: red", "configmap/kubesphere.yaml": configMap}, "unknown key"},
		"SecretOfNoFile":  {map[string]string{"kubesphere.yaml/x": "", "configmap/kubesphere.yaml": configMap}, "is a directory"},
		"SecretOfAnother": {map[string]string{"other.yaml": secret, "configmap/kubesphere.yaml": configMap}, "https://configmap.example"},
		"Neither":         {map[string]string{"other.yaml": secret}, "kubesphere.yaml: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			loaded, err := config.Load(folder(t, c.files))
			got := fmt.Sprint(err)
			if err == nil {
				got = loaded.Authentication.Issuer.URL
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func TestSecretsOfAConfigMapAreNamed(t *testing.T) {
	const v4 = `
authentication:
  Issuer: {jwtSecret: canary, signKeyData: canary, maximumClockSkew: 10s}
  clients: [{name: a, secret: canary}, {name: b}, {name: c, secret: canary}]
  identityProviders: [{name: ldap, provider: {managerPassword: canary}}]
cache: {type: redis, options: {host: redis, password: canary}}
`
	const v3 = `
authentication:
  jwtSecret: canary
  oauthOptions:
    clients: [{name: a, secret: canary}]
    identityProviders: [{name: ldap, provider: {managerPassword: canary}}]
redis: {host: redis, password: canary}
`
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"V4": {v4, []string{
			"authentication.clients[0].secret", "authentication.clients[2].secret", "authentication.identityProviders",
			"authentication.issuer.jwtSecret", "authentication.issuer.signKeyData", "cache.options.password",
		}},
		"V3":   {v3, []string{"authentication.clients[0].secret", "authentication.identityProviders", "authentication.issuer.jwtSecret", "cache.options.password"}},
		"None": {"authentication: {issuer: {jwtSecret: \"\", signKeyData: null}, clients: [{name: a}], identityProviders: []}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBESPHERE_CACHE_OPTIONS_USERNAME", "not from the file")
			exposed, err := config.Load(folder(t, map[string]string{"configmap/kubesphere.yaml": c.text}))
			if err != nil || !slices.Equal(exposed.Exposed, c.want) {
				t.Errorf("of a ConfigMap: %v %v", exposed, err)
			}
			kept, err := config.Load(folder(t, map[string]string{"kubesphere.yaml": c.text}))
			if err != nil || kept.Exposed != nil {
				t.Errorf("of a Secret: %v %v", kept, err)
			}
		})
	}
}
