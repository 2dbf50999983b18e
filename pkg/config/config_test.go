package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/config"
)

func TestFilesOfBothGenerationsGiveTheSameConfiguration(t *testing.T) {
	v4 := `
authentication:
  multipleLogin: false
  issuer:
    url: https://ks.example.com
    accessTokenMaxAge: 1h
    accessTokenInactivityTimeout: 30m
    maximumClockSkew: 20s
    jwtSecret: abc
  clients:
  - name: kubesphere
    secret: s
    trusted: true
    accessTokenMaxAgeSeconds: 700
`
	v3 := `
authentication:
  multipleLogin: false
  jwtSecret: abc
  maximumClockSkew: 20s
  oauthOptions:
    issuer: https://ks.example.com
    accessTokenMaxAge: 1h
    accessTokenInactivityTimeout: 30m
    clients:
    - name: kubesphere
      secret: s
      trusted: true
      accessTokenMaxAge: 700
`
	a, err := config.Parse([]byte(v4), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := config.Parse([]byte(v3), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("v3.4 file: %+v\nv4 file:   %+v", b, a)
	}
	if a.Authentication.Issuer.URL != "https://ks.example.com" || a.Authentication.MultipleLogin ||
		time.Duration(a.Authentication.Issuer.AccessTokenMaxAge) != time.Hour || a.Authentication.Clients[0].AccessTokenMaxAgeSeconds != 700 {
		t.Errorf("the file was not read: %+v", a)
	}
	if want := []string{"authentication.issuer.jwtSecret"}; !reflect.DeepEqual(a.Ignored, want) {
		t.Errorf("Ignored = %v, want %v", a.Ignored, want)
	}
}

func TestEmptyOptionalSectionsKeepTheDefaults(t *testing.T) { // U16
	for _, text := range []string{"", "{}", "authentication:", "authentication: {}", "authentication: {issuer: }\nmulticluster:\n",
		"kubernetes: {}\nauthorization: {}\nmulticluster: {}", "authentication: {oauthOptions: {}}", "authentication: {clients: []}"} {
		c, err := config.Parse([]byte(text), nil)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		want := config.Default()
		want.Multicluster.ClusterName = "host"
		c.Authentication.Clients = nil
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%q: %+v, want the defaults", text, c)
		}
	}
}

func TestBadFilesAreRefusedNamingTheKey(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown section", "autentication: {}", `unknown key "autentication"; did you mean "authentication"?`},
		{"unknown key", "authentication: {isuer: {}}", `unknown key "authentication.isuer"; did you mean "authentication.issuer"?`},
		{"unknown key in a list", "authentication: {clients: [{name: a, sekret: x}]}",
			`unknown key "authentication.clients[0].sekret"; did you mean "authentication.clients[0].secret"?`},
		{"unknown old key", "authentication: {oauthOptions: {foo: 1}}", `unknown key "authentication.oauthOptions.foo"`},
		{"both generations", "authentication: {oauthOptions: {issuer: http://a}, issuer: {url: http://b}}", "oauthOptions.issuer is set under its new name as well"},
		{"both cases", "authentication: {multiplelogin: true, multipleLogin: false}", "written twice"},
		{"duplicate", "authorization: {mode: RBAC}\nauthorization: {mode: RBAC}", "already"},
		{"not a map", "- a", "map of sections"},
		{"not a section", "authentication: 5", "authentication is a section"},
		{"not a duration", "authentication: {issuer: {accessTokenMaxAge: 2 hours}}", "not a duration"},
		{"number for a duration", "authentication: {issuer: {accessTokenMaxAge: 7200}}", "not a duration"},
		{"negative duration", "authentication: {issuer: {accessTokenMaxAge: -1s}}", "negative"},
		{"wrong type", "authentication: {multipleLogin: maybe}", "multipleLogin"},
		{"mode", "authorization: {mode: Sometimes}", `"Sometimes" is not RBAC`},
		{"issuer", "authentication: {issuer: {url: 'ks.example.com?x=1'}}", "authentication.issuer.url"},
		{"issuer over http", "authentication: {issuer: {url: 'http://ks.example.com'}}", "authentication.issuer.allowInsecureURL: true"},
		{"issuer that looks like loopback", "authentication: {issuer: {url: 'http://localhost.example.com'}}", "is http"},
		{"host name", "multicluster: {hostClusterName: Host_1}", "multicluster.hostClusterName"},
		{"role", "multicluster: {clusterRole: boss}", "multicluster.clusterRole"},
		{"skew", "authentication: {issuer: {maximumClockSkew: 1h}}", "at most 5m"},
		{"broken yaml", "a: [", "yaml"},
		{"client without a name", "authentication: {clients: [{secret: s}]}", "clients[0].name is missing"},
		{"two faults, one line", "authorization: {mode: x}\nmulticluster: {clusterRole: boss}", "; multicluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := config.Parse([]byte(c.text), nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error = %v, want one that contains %q", err, c.want)
			}
			if err != nil && strings.Contains(strings.TrimSpace(err.Error()), "\n") {
				t.Errorf("the error is more than one line: %q", err)
			}
		})
	}
}

func TestAnIssuerOverHTTPIsForLoopbackOrOnPurpose(t *testing.T) { // S76
	for _, host := range []string{"localhost:9090", "LOCALHOST", "127.0.0.1:80", "127.1.2.3", "[::1]:9090"} {
		if _, err := config.Parse([]byte("authentication: {issuer: {url: 'http://"+host+"'}}"), nil); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	env := []string{"KUBESPHERE_AUTHENTICATION_ISSUER_ALLOWINSECUREURL=true"}
	if _, err := config.Parse([]byte("authentication: {issuer: {url: 'http://ks-console.kubesphere-system.svc:30880'}}"), env); err != nil {
		t.Errorf("accepted by name: %v", err)
	}
	if !strings.HasPrefix(config.Default().Authentication.Issuer.URL, "https://") {
		t.Error("the default is not https")
	}
}

func TestAnInstallationsFileLoadsAndSaysWhatIsNotRead(t *testing.T) {
	text := `
kubernetes: {kubeconfig: "", master: "", qps: 1e+06, burst: 1000000}
authentication:
  authenticateRateLimiterMaxTries: 10
  loginHistoryRetentionPeriod: 168h
  issuer: {url: "http://ks-console:30880", allowInsecureURL: true, jwtSecret: x, accessTokenMaxAge: 0s}
terminal: {image: alpine:3.15, timeout: 600}
s3: {endpoint: "http://minio", accessKeyID: admin, secretAccessKey: admin, disableSSL: true, forcePathStyle: true, bucket: uploads}
servicemesh: {a: b}
`
	c, err := config.Parse([]byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"authentication.issuer.jwtSecret", "servicemesh", "terminal.image", "terminal.timeout"}
	if !reflect.DeepEqual(c.Ignored, want) {
		t.Errorf("Ignored = %v, want %v", c.Ignored, want)
	}
	if c.Authentication.Issuer.AccessTokenMaxAge != 0 || c.Kubernetes.QPS != 1e6 {
		t.Errorf("the file was not read: %+v", c)
	}
}

func TestVariablesOverrideKeysInTheFileOrNot(t *testing.T) {
	env := []string{
		"KUBESPHERE_AUTHENTICATION_ISSUER_URL=https://other.example.com",
		"KUBESPHERE_AUTHENTICATION_MULTIPLELOGIN=false",
		"KUBESPHERE_AUTHENTICATION_ISSUER_ACCESSTOKENMAXAGE=5m",
		"KUBESPHERE_KUBERNETES_BURST=7",
		"KUBESPHERE_NO_SUCH_KEY=1",
		"KUBESPHERE_ADMIN_PASSWORD=canary",
		"PATH=/bin",
	}
	c, err := config.Parse([]byte("authentication: {issuer: {URL: http://file.example.com}}"), env)
	if err != nil {
		t.Fatal(err)
	}
	if c.Authentication.Issuer.URL != "https://other.example.com" || c.Authentication.MultipleLogin ||
		time.Duration(c.Authentication.Issuer.AccessTokenMaxAge) != 5*time.Minute || c.Kubernetes.Burst != 7 {
		t.Errorf("not overridden: %+v", c)
	}
	if want := []string{"$KUBESPHERE_NO_SUCH_KEY"}; !reflect.DeepEqual(c.Ignored, want) {
		t.Errorf("Ignored = %v, want %v", c.Ignored, want)
	}
	if _, err := config.Parse(nil, []string{"KUBESPHERE_AUTHENTICATION_ISSUER_ACCESSTOKENMAXAGE=soon"}); err == nil {
		t.Error("a bad value in a variable was accepted")
	}
}

func TestLoadTakesAFileOrAFolderAndNamesWhatItTried(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kubesphere.yaml")
	if err := os.WriteFile(file, []byte("authorization: {mode: AlwaysDeny}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, dir} {
		c, err := config.Load(path)
		if err != nil || c.Authorization.Mode != config.ModeAlwaysDeny {
			t.Errorf("Load(%s) = %+v, %v", path, c, err)
		}
	}
	missing := filepath.Join(dir, "none.yaml")
	if _, err := config.Load(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("Load of a missing file: %v, want an error that names it", err)
	}
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("x: 1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(bad); err == nil || !strings.Contains(err.Error(), bad) {
		t.Errorf("Load of a bad file: %v, want an error that names it", err)
	}
}

func TestSecretsDoNotPrint(t *testing.T) { // S57
	c, err := config.Parse([]byte("authentication: {issuer: {jwtSecret: canary}, clients: [{name: a, secret: canary}]}"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"%v", "%+v", "%#v", "%s"} {
		if s := fmt.Sprintf(f, c.Authentication.Clients[0]); strings.Contains(s, "canary") {
			t.Errorf("%s shows the secret: %s", f, s)
		}
	}
	if string(c.Authentication.Clients[0].Secret) != "canary" {
		t.Error("the secret's value is lost")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("authentication: {issuer: {url: http://a}}", "KUBESPHERE_AUTHENTICATION_ISSUER_URL=x")
	f.Add("authentication: {oauthOptions: {clients: [{name: a}]}}", "KUBESPHERE_=")
	f.Fuzz(func(t *testing.T, text, env string) {
		c, err := config.Parse([]byte(text), []string{env})
		if err == nil && c == nil {
			t.Fatal("no configuration and no error")
		}
	})
}
