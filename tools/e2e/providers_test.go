package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/tools/slapd"
)

const (
	secretsPath   = "/api/v1/namespaces/kubesphere-system/secrets"
	providersPath = "/kapis/config.kubesphere.io/v1alpha2/identityproviders"
	usersPath     = "/apis/iam.kubesphere.io/v1beta1/users"
)

func providerSecret(name, configuration string) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "config.kubesphere.io/identityprovider",
		"metadata":   map[string]any{"name": name, "namespace": "kubesphere-system", "labels": map[string]any{"config.kubesphere.io/type": "identityprovider"}},
		"stringData": map[string]any{"configuration.yaml": configuration}}
}

func providerGrant(ctx context.Context, provider, user, pass string) (reply, error) {
	return tokenCall(ctx, product.URL, url.Values{"grant_type": {"password"}, "provider": {provider}, "username": {user}, "password": {pass}})
}

// providerCondition returns the status and the message of a provider's condition.
func providerCondition(ctx context.Context, c caller, provider, kind string) (status, message string, err error) {
	r, err := c.do(ctx, http.MethodGet, providersPath+"/"+provider, nil)
	if err != nil || r.code != http.StatusOK {
		return "", "", fmt.Errorf("%d %s %w", r.code, clip(r.body), err)
	}
	var p struct {
		Status struct {
			Conditions []struct{ Type, Status, Message string }
		}
	}
	if err := json.Unmarshal([]byte(r.body), &p); err != nil {
		return "", "", err
	}
	for _, x := range p.Status.Conditions {
		if x.Type == kind {
			return x.Status, x.Message, nil
		}
	}
	return "", "", errors.New("no such condition")
}

func awaitCondition(t *testing.T, provider, kind, status, message string) {
	t.Helper()
	a := admin(t)
	eventually(t, "provider "+provider+" is "+kind+"="+status, func(ctx context.Context) error {
		got, text, err := providerCondition(ctx, a, provider, kind)
		if err == nil && (got != status || !strings.Contains(text, message)) {
			err = fmt.Errorf("it is %s: %s", got, text)
		}
		return err
	})
}

// U30 to U33, S12: a directory is configured by a Secret, without a restart; its people log in and get what is bound to their groups; an outage
// is no wrong password; a group that is gone there is gone here at the next refresh.
func TestADirectorysPeopleLogIn(t *testing.T) {
	proves(t, "S12")
	person, group, corp := unique("person"), unique("staff"), unique("corp")
	l := slapd.New(t, []string{person, unique("other")}, []string{group, "rest"})
	a := admin(t)
	a.create(t, secretsPath, providerSecret(corp, l.Configuration(corp)))
	t.Cleanup(func() { _, _ = a.do(context.Background(), http.MethodDelete, usersPath+"/"+person, nil) })
	awaitCondition(t, corp, "Configured", "True", "")
	awaitCondition(t, corp, "Reachable", "True", "")

	t.Run("ATrialMakesNobody", func(t *testing.T) {
		r := a.must(t, http.StatusOK, http.MethodPost, providersPath+"/"+corp+"/test", map[string]any{"username": person, "password": slapd.Password})
		if !strings.Contains(r.body, `"action":"Create","name":"`+person+`"`) || !strings.Contains(r.body, group) {
			t.Errorf("%s", r.body)
		}
		if r := a.must(t, http.StatusOK, http.MethodPost, providersPath+"/"+corp+"/test",
			map[string]any{"username": person, "password": "wrong"}); !strings.Contains(r.body, `"login":{"result":"Credentials"`) {
			t.Errorf("%s", r.body)
		}
		a.must(t, http.StatusNotFound, http.MethodGet, usersPath+"/"+person, nil)
		newUserOnly := newUser(t, unique("plain"))
		newUserOnly.must(t, http.StatusForbidden, http.MethodGet, providersPath, nil)
		newUserOnly.must(t, http.StatusForbidden, http.MethodPost, providersPath+"/"+corp+"/test", map[string]any{})
	})

	ns := newNamespace(t)
	a.create(t, "/apis/iam.kubesphere.io/v1beta1/namespaces/"+ns+"/roles", map[string]any{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "Role",
		"metadata": map[string]any{"name": "reader", "namespace": ns},
		"rules":    []any{map[string]any{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get", "list"}}}})
	a.create(t, "/apis/iam.kubesphere.io/v1beta1/namespaces/"+ns+"/rolebindings", map[string]any{"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "RoleBinding",
		"metadata": map[string]any{"name": "staff", "namespace": ns},
		"roleRef":  map[string]any{"apiGroup": "iam.kubesphere.io", "kind": "Role", "name": "reader"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}}})

	var in tokenReply
	t.Run("ThePasswordGrantAsksTheProvider", func(t *testing.T) {
		r, err := providerGrant(t.Context(), corp, person, slapd.Password)
		if err != nil || r.code != http.StatusOK {
			t.Fatalf("%d %s %v", r.code, r.body, err)
		}
		in = decode[tokenReply](t, r.body)
		u := a.must(t, http.StatusOK, http.MethodGet, usersPath+"/"+person, nil)
		if !strings.Contains(u.body, `"iam.kubesphere.io/identity-provider.`+corp+`":"`+person+`"`) {
			t.Errorf("%s", u.body)
		}
		for _, try := range [][2]string{{person, "wrong"}, {unique("nobody"), slapd.Password}, {"*", slapd.Password}, {person, ""}} {
			if r, err := providerGrant(t.Context(), corp, try[0], try[1]); err != nil || r.code != http.StatusBadRequest {
				t.Errorf("%q: %d %s %v", try[0], r.code, r.body, err)
			}
		}
	})
	list := func(ctx context.Context, token string) (reply, error) {
		return caller{product.URL, token}.do(ctx, http.MethodGet, "/kapis/resources.kubesphere.io/v1alpha3/namespaces/"+ns+"/configmaps", nil)
	}
	t.Run("GroupsCountInBindings", func(t *testing.T) { // U33
		eventually(t, "the group's role counts", func(ctx context.Context) error {
			r, err := list(ctx, in.Access)
			if err == nil && r.code != http.StatusOK {
				err = fmt.Errorf("%d %s", r.code, clip(r.body))
			}
			return err
		})
	})
	t.Run("AnOutageIsNoWrongPassword", func(t *testing.T) { // U30
		l.Stop()
		r, err := providerGrant(t.Context(), corp, person, slapd.Password)
		if err != nil || r.code != http.StatusServiceUnavailable || !strings.Contains(r.body, "temporarily_unavailable") {
			t.Errorf("%d %s %v", r.code, r.body, err)
		}
		if r, err := tokenCall(t.Context(), product.URL, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {in.Refresh}}); err != nil ||
			r.code != http.StatusOK {
			t.Errorf("refresh meanwhile: %d %s %v", r.code, r.body, err)
		}
		l.Start()
		r, err = providerGrant(t.Context(), corp, person, slapd.Password)
		if err != nil || r.code != http.StatusOK {
			t.Fatalf("after the outage: %d %s %v", r.code, r.body, err)
		}
		in = decode[tokenReply](t, r.body) // a refresh of the other would still be in the grace of the one before
	})
	t.Run("AGroupThatIsGoneThereIsGoneHere", func(t *testing.T) { // S12
		l.Modify("dn: cn=" + group + ",ou=groups," + slapd.Base + "\nchangetype: delete\n")
		next := decode[tokenReply](t, refresh(t, product.URL, in.Refresh).body)
		if r, err := list(t.Context(), next.Access); err != nil || r.code != http.StatusForbidden {
			t.Errorf("%d %s %v", r.code, clip(r.body), err)
		}
		in = next
	})
	t.Run("ADisabledProviderEndsItsSessions", func(t *testing.T) { // S12
		a.must(
			t,
			http.StatusOK,
			http.MethodPatch,
			secretsPath+"/"+corp,
			`{"stringData":{"configuration.yaml":`+quoted(t, l.Configuration(corp)+"disabled: true\n")+`}}`,
			"Content-Type: application/merge-patch+json",
		)
		eventually(t, "the session is over", func(ctx context.Context) error {
			r, err := list(ctx, in.Access)
			if err == nil && r.code != http.StatusUnauthorized {
				err = fmt.Errorf("%d", r.code)
			}
			return err
		})
	})
}

func quoted(t *testing.T, s string) string {
	t.Helper()
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// U32: a key that is spelt wrong is named, where administrators look; the correction needs no restart.
func TestAMisspeltKeyIsNamed(t *testing.T) {
	l := slapd.New(t, []string{"jane"}, []string{"staff"})
	name := unique("corp")
	a := admin(t)
	a.create(t, secretsPath, providerSecret(name, l.Configuration(name, "groupSearchBases: dc=x")))
	awaitCondition(t, name, "Configured", "False", "groupSearchBases")
	r := a.must(t, http.StatusOK, http.MethodGet, "/readyz?verbose", nil)
	if !strings.Contains(r.body, "[!]identity-providers degraded") || !strings.Contains(r.body, "groupSearchBases") || strings.Contains(r.body, slapd.Secret) {
		t.Errorf("%s", r.body)
	}
	if r := anonymous().must(t, http.StatusOK, http.MethodGet, "/readyz?verbose", nil); strings.Contains(r.body, "groupSearchBases") {
		t.Errorf("anybody sees it: %s", r.body)
	}
	a.must(
		t,
		http.StatusOK,
		http.MethodPatch,
		secretsPath+"/"+name,
		`{"stringData":{"configuration.yaml":`+quoted(t, l.Configuration(name))+`}}`,
		"Content-Type: application/merge-patch+json",
	)
	awaitCondition(t, name, "Reachable", "True", "")
}

// U31: who may change himself may not make himself somebody else's account, or somebody else his.
func TestLinksAreForThoseWhoManageUsers(t *testing.T) {
	name := unique("linker")
	u := newUser(t, name)
	for _, patch := range []string{
		`{"metadata":{"annotations":{"iam.kubesphere.io/identity-provider.corp":"boss"}}}`,
		`{"metadata":{"labels":{"iam.kubesphere.io/identify-provider":"corp","iam.kubesphere.io/origin-uid":"boss"}}}`,
	} {
		u.must(t, http.StatusForbidden, http.MethodPatch, usersPath+"/"+name, patch, "Content-Type: application/merge-patch+json")
		admin(t).must(t, http.StatusOK, http.MethodPatch, usersPath+"/"+name, patch, "Content-Type: application/merge-patch+json")
		u.must(
			t,
			http.StatusForbidden,
			http.MethodPatch,
			usersPath+"/"+name,
			strings.ReplaceAll(patch, `"boss"`, "null"),
			"Content-Type: application/merge-patch+json",
		)
	}
}
