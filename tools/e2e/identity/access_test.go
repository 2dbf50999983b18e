package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
)

// T9068-1, T9068-2: whatever they were granted for, access tokens are JWT that others can verify, and say what RFC 9068 wants.
func TestAccessTokensAreWhatTheRFCWants(t *testing.T) {
	rule(t, "T9068-1", "T9068-2", "T9068-4")
	b := here(t)
	code := harbor.ask().tokens(t, b)
	a := harbor.device(t)
	b.letIn(t, a.field("user_code"))
	name := "client:" + harbor.ID
	keys := gooidc.NewRemoteKeySet(gooidc.ClientContext(t.Context(), &http.Client{Transport: wire}), issuer+"/oauth/keys")
	seen := map[any]bool{}
	for grant, c := range map[string]struct {
		access, client, subject string
	}{
		"Code":              {code.Access, harbor.ID, uidOf(t, alice)},
		"Refresh":           {harbor.refresh(t, code.Refresh).tokens(t).Access, harbor.ID, uidOf(t, alice)},
		"Device":            {harbor.poll(t, a.field("device_code")).tokens(t).Access, harbor.ID, uidOf(t, alice)},
		"Password":          {passwordLogin(t, alice).Access, console.ID, uidOf(t, alice)},
		"ClientCredentials": {harbor.token(t, "grant_type", "client_credentials").tokens(t).Access, harbor.ID, name},
	} {
		t.Run(grant, func(t *testing.T) {
			header, said := claims(t, c.access)
			if header["typ"] != "at+jwt" || header["alg"] != "RS256" || header["kid"] == "" {
				t.Errorf("header %v", header)
			}
			raw, err := keys.VerifySignature(t.Context(), c.access)
			if err != nil {
				t.Fatal(err)
			}
			verified := map[string]any{}
			if err := json.Unmarshal(raw, &verified); err != nil {
				t.Fatal(err)
			}
			for _, claim := range []string{"iss", "exp", "aud", "sub", "client_id", "iat", "jti"} {
				if verified[claim] == nil || verified[claim] == "" {
					t.Errorf("%s is missing: %v", claim, verified)
				}
			}
			if said["iss"] != issuer || toText(t, said["aud"]) != `["kapis"]` || said["client_id"] != c.client || said["sub"] != c.subject || seen[said["jti"]] {
				t.Errorf("%v, want the client %s and the subject %s", said, c.client, c.subject)
			}
			seen[said["jti"]] = true
		})
	}
	t.Run("ForThisServerOnly", func(t *testing.T) {
		q := harbor.ask("resource", "https://other.example")
		storesNothing(t, func() {
			q.refused(t, b.open(t, q.address()), "invalid_target")
			harbor.token(t, "grant_type", "client_credentials", "resource", "https://other.example").fails(t, http.StatusBadRequest, "invalid_target")
			q := harbor.ask("scope", "nothing that there is")
			q.refused(t, b.open(t, q.address()), "invalid_scope")
		})
		q = harbor.ask("resource", issuer)
		if _, said := claims(t, q.tokens(t, b).Access); toText(t, said["aud"]) != `["kapis"]` {
			t.Errorf("%v", said["aud"])
		}
	})
}

// T9068-5: what somebody may do is not in his token: it changes while he is logged in.
func TestRightsAndGroupsAreReadFresh(t *testing.T) {
	rule(t, "T9068-5")
	name, group := newUser(t, "rights"), unique("group")
	in := passwordLogin(t, name).Access
	third := harbor.ask("scope", "openid").tokens(t, logIn(t, name)).Access
	for _, token := range []string{in, third} {
		_, said := claims(t, token)
		for claim := range said {
			if slices.Contains([]string{"roles", "entitlements", "permissions", "rules"}, claim) {
				t.Errorf("the token says %s", claim)
			}
		}
	}
	if _, said := claims(t, third); strings.Contains(toText(t, said), "@example.com") || said["groups"] != nil {
		t.Errorf("a client that may not know it can read %v", said)
	}
	may := func(t *testing.T, status int) {
		t.Helper()
		within(t, revocation, fmt.Sprint("the list of users answers ", status), func(ctx context.Context) error {
			for _, token := range []string{in, third} {
				a, err := try(ctx, http.MethodGet, issuer+usersPath, nil, bearer(token)...)
				if err != nil {
					return err
				}
				if a.status != status {
					return fmt.Errorf("%d %s", a.status, clip(a.body))
				}
			}
			return nil
		})
	}
	const bindings = "/apis/iam.kubesphere.io/v1beta1/globalrolebindings"
	admins := "Authorization: Bearer " + admin(t)
	bind := func(kind, subject string) (undo func()) {
		t.Helper()
		binding := unique("rules")
		body := fmt.Sprintf(
			`{"apiVersion":"iam.kubesphere.io/v1beta1","kind":"GlobalRoleBinding","metadata":{"name":%q},"roleRef":{"apiGroup":"iam.kubesphere.io","kind":"GlobalRole","name":"platform-admin"},"subjects":[{"apiGroup":"iam.kubesphere.io","kind":%q,"name":%q}]}`,
			binding,
			kind,
			subject,
		)
		call(t, http.MethodPost, issuer+bindings, body, "Content-Type: application/json", admins).must(t, http.StatusCreated)
		return func() { call(t, http.MethodDelete, issuer+bindings+"/"+binding, nil, admins).must(t, http.StatusOK) }
	}
	may(t, http.StatusForbidden)
	undo := bind("User", name)
	may(t, http.StatusOK)
	undo()
	may(t, http.StatusForbidden)
	undo = bind("Group", group)
	patchUser(t, name, fmt.Sprintf(`{"spec":{"groups":[%q]}}`, group))
	may(t, http.StatusOK)
	patchUser(t, name, `{"spec":{"groups":[]}}`)
	may(t, http.StatusForbidden)
	undo()
}
