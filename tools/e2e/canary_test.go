package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// printed keeps what a program prints.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// S57: at the highest level that can be asked for, no log, event, answer or error says what is secret.
func TestSecretsAreInNoLogEventOrError(t *testing.T) {
	proves(t, "S57")
	var log printed
	server, err := product.LoggedReplica(t.Context(), &log, "-v=10", "--vmodule=*=10")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	const first, second, wrong, client = "Canary-1st-Password", "Canary-2nd-Password", "Canary-3rd-Password", "canary-client-secret-0123456789abcdef"
	secrets := map[string]string{"the first password": first, "the second password": second, "a wrong password": wrong, "the client's secret": client}
	name := unique("discreet")
	a := loginAt(t, server.URL, "admin", product.AdminPassword)
	secrets["the administrator's password"], secrets["the administrator's token"] = product.AdminPassword, a.token

	var answers strings.Builder
	ask := func(c caller, method, path string, body any, headers ...string) reply {
		t.Helper()
		r, err := c.do(t.Context(), method, path, body, headers...)
		if err != nil {
			t.Fatal(err)
		}
		answers.WriteString(r.body)
		return r
	}
	ask(a, http.MethodPost, iamRoutes+"/users", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "User", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"email": name + "@example.com", "password": first},
	})
	logIn := func(password string) (c caller) { // once this replica knows it
		eventually(t, "the user logs in", func(ctx context.Context) error {
			r, err := passwordGrant(ctx, server.URL, name, password)
			if err != nil || r.code != http.StatusOK {
				return fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
			}
			c = caller{server.URL, decode[tokenReply](t, r.body).Access}
			return nil
		})
		return c
	}
	me := logIn(first)
	secrets["the user's token"] = me.token
	if r, err := passwordGrant(t.Context(), server.URL, name, wrong); err != nil || r.code == http.StatusOK {
		t.Fatalf("%+v, %v", r, err)
	}
	path := iamRoutes + "/users/" + name
	ask(me, http.MethodPut, path+"/password", map[string]any{"currentPassword": wrong, "password": second})
	ask(me, http.MethodPut, path+"/password", map[string]any{"currentPassword": first, "password": second})
	me = logIn(second)
	secrets["the second token"] = me.token
	made := decode[struct{ Name, Token string }](t, me.must(t, http.StatusOK, http.MethodPost, path+"/apikeys",
		map[string]any{"currentPassword": second, "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}).body)
	secrets["the API key"] = made.Token
	ask(caller{server.URL, made.Token}, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3/pods?limit=1", nil)
	const secret = "/api/v1/namespaces/kubesphere-system/secrets"
	a.must(t, http.StatusCreated, http.MethodPost, secret, map[string]any{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name, "labels": map[string]any{"config.kubesphere.io/type": "oauthclient"}},
		"type":       "config.kubesphere.io/oauthclient",
		"stringData": map[string]any{"configuration.yaml": "name: " + name + "\nsecret: " + client + "\ngrantMethod: auto\n"},
	})
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, secret+"/"+name, nil) })
	ask(me, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha2/users/"+name+"/kubeconfig", nil)
	ask(a, http.MethodGet, path, nil)
	ask(a, http.MethodGet, iamRoutes+"/users", nil)

	places := map[string]string{
		"the log":     log.String(),
		"the answers": answers.String(),
		"the events":  a.must(t, http.StatusOK, http.MethodGet, "/api/v1/events", nil).body,
		"the metrics": ask(a, http.MethodGet, "/metrics", nil).body,
	}
	if places["the log"] == "" {
		t.Fatal("nothing was logged: there is nothing to look at")
	}
	for place, text := range places {
		for what, value := range secrets {
			if strings.Contains(text, value) {
				t.Errorf("%s is in %s", what, place)
			}
		}
		for _, hash := range []string{"$2a$", "$2b$"} {
			if strings.Contains(text, hash) {
				t.Errorf("a hash of a password is in %s", place)
			}
		}
	}
}
