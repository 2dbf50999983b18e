package registry

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func secret(key, data string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{key: []byte(data)}}
}

func TestSecretsGiveAccountsByRegistry(t *testing.T) {
	auth := base64.StdEncoding.EncodeToString([]byte("ann:" + canary))
	const json, cfg = corev1.DockerConfigJsonKey, corev1.DockerConfigKey
	for name, c := range map[string]struct {
		secret *corev1.Secret
		host   string
		want   Account
	}{
		"fields":           {secret(json, `{"auths":{"r.example.com":{"username":"ann","password":"`+canary+`"}}}`), "r.example.com", ann},
		"auth":             {secret(json, `{"auths":{"r.example.com":{"auth":"`+auth+`"}}}`), "r.example.com", ann},
		"auth unpadded":    {secret(json, `{"auths":{"r.example.com":{"auth":"`+strings.TrimRight(auth, "=")+`"}}}`), "r.example.com", ann},
		"fields over auth": {secret(json, `{"auths":{"r.example.com":{"username":"ann","password":"`+canary+`","auth":"eDp5"}}}`), "r.example.com", ann},
		"older form":       {secret(cfg, `{"r.example.com":{"auth":"`+auth+`"}}`), "r.example.com", ann},
		"a URL":            {secret(json, `{"auths":{"https://R.example.com/v2/":{"auth":"`+auth+`"}}}`), "r.example.com", ann},
		"a port":           {secret(json, `{"auths":{"r.example.com:5000":{"auth":"`+auth+`"}}}`), "r.example.com:5000", ann},
		"another port":     {secret(json, `{"auths":{"r.example.com:5000":{"auth":"`+auth+`"}}}`), "r.example.com", Account{}},
		"another host":     {secret(json, `{"auths":{"r.example.com":{"auth":"`+auth+`"}}}`), "r.example.com.evil.org", Account{}},
		"docker hub":       {secret(json, `{"auths":{"https://index.docker.io/v1/":{"auth":"`+auth+`"}}}`), "index.docker.io", ann},
		"docker hub again": {secret(json, `{"auths":{"docker.io":{"auth":"`+auth+`"}}}`), "index.docker.io", ann},
		"the shortest key": {secret(json, `{"auths":{"r.example.com/team":{"username":"x"},"r.example.com":{"auth":"`+auth+`"}}}`), "r.example.com", ann},
		"no password":      {secret(json, `{"auths":{"r.example.com":{}}}`), "r.example.com", Account{}},
	} {
		creds, err := ParseSecret(c.secret)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := creds.Account(c.host); got != c.want || creds.Insecure {
			t.Errorf("%s: %q %q", name, got.Username, got.Password)
		}
	}
	s := secret(json, `{"auths":{"r.example.com":{}}}`)
	s.StringData = map[string]string{json: `{"auths":{"b.example.com":{},"a.example.com":{}}}`}
	s.Annotations = map[string]string{InsecureAnnotation: "true"}
	creds, err := ParseSecret(s)
	if err != nil || fmt.Sprint(creds.Registries()) != "[a.example.com b.example.com]" || !creds.Insecure {
		t.Errorf("%+v, %v", creds, err)
	}
}

func TestWhatIsNoRegistrySecretIsRefusedUnquoted(t *testing.T) { // S57
	many := make([]string, 0, maxRegistries+1)
	for i := range maxRegistries + 1 {
		many = append(many, fmt.Sprintf(`"r%d":{}`, i))
	}
	for name, s := range map[string]*corev1.Secret{
		"no key":    secret("password", canary),
		"no JSON":   secret(corev1.DockerConfigJsonKey, canary),
		"no auths":  secret(corev1.DockerConfigJsonKey, `{"x":"`+canary+`"}`),
		"a list":    secret(corev1.DockerConfigKey, `["`+canary+`"]`),
		"a text":    secret(corev1.DockerConfigJsonKey, `{"auths":{"a":"`+canary+`"}}`),
		"no base64": secret(corev1.DockerConfigJsonKey, `{"auths":{"a":{"auth":"`+canary+`!"}}}`),
		"no colon":  secret(corev1.DockerConfigJsonKey, `{"auths":{"a":{"auth":"`+base64.StdEncoding.EncodeToString([]byte(canary))+`"}}}`),
		"no host":   secret(corev1.DockerConfigJsonKey, `{"auths":{"https:///x":{"password":"`+canary+`"}}}`),
		"too many":  secret(corev1.DockerConfigJsonKey, `{"auths":{`+strings.Join(many, ",")+`}}`),
	} {
		_, err := ParseSecret(s)
		is(t, err, 400, "the Secret")
		_ = name
	}
}

func TestAnAccountHidesItsPassword(t *testing.T) { // S57
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if shown := fmt.Sprintf(format, ann) + fmt.Sprintf(format, []Account{ann}) +
			fmt.Sprintf(format, &Credentials{accounts: map[string]Account{"r": ann}}); strings.Contains(shown, canary) {
			t.Errorf("%s shows %s", format, shown)
		}
	}
}

func FuzzParseSecret(f *testing.F) {
	for _, s := range []string{`{"auths":{"a":{"auth":"YTpi"}}}`, `{"auths":{"https://index.docker.io/v1/":{"username":"a"}}}`, `{"a":{}}`, `{}`,
		`{"auths":null}`} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, data string, older bool) {
		key := corev1.DockerConfigJsonKey
		if older {
			key = corev1.DockerConfigKey
		}
		creds, err := ParseSecret(secret(key, data))
		if err != nil {
			return
		}
		for _, host := range creds.Registries() {
			if host == "" || strings.Contains(host, "/") || len(creds.Registries()) > maxRegistries {
				t.Errorf("a registry at %q", host)
			}
		}
	})
}
