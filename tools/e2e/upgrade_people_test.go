package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
)

// upgradeUser has a role, and is logged in since before.
type upgradeUser struct {
	name string
	may  []int // what the requests of asks are answered with
	// access are the access tokens of sessions that were not ended; refresh is the newest refresh token of the session that goes on, and
	// resting one of a session that nobody uses until the way back.
	access           []string
	refresh, resting string
}

// upgradeUsers are users at each scope, and what else has tokens.
type upgradeUsers struct {
	w    *upgradeWorld
	asks []string
	all  []*upgradeUser
	// programs are the tokens of API keys and service accounts, with what the requests of asks are answered with.
	programs map[string][]int
	// ended are the access tokens of sessions that were ended.
	ended []string
	// loses and wins are users whose rights change: of the first a binding is deleted, and the second gets one.
	loses, wins *upgradeUser
}

// newUpgradeUsers makes them in the namespace and workspace home, whose objects makeObjects has made.
func newUpgradeUsers(t *testing.T, w *upgradeWorld, a caller, home string) *upgradeUsers {
	t.Helper()
	const yes, no = http.StatusOK, http.StatusForbidden
	p := &upgradeUsers{w: w, programs: map[string][]int{}, asks: []string{
		"/api/v1/nodes?limit=1", kapis + "/nodes?limit=1", "/api/v1/namespaces/kubesphere-system/secrets?limit=1", tenants + "/workspaces/" + home,
		"/api/v1/namespaces/" + home + "/configmaps?limit=1",
	}}
	of := func(name string, may ...int) *upgradeUser {
		t.Helper()
		postUser(t, a, name)
		one := &upgradeUser{name: name, may: may}
		p.all = append(p.all, one)
		return one
	}
	of("chief", yes, yes, yes, yes, yes)
	of("operator", yes, yes, no, no, yes)
	of("colleague", no, no, no, yes, no)
	of("developer", no, no, no, no, yes)
	of("grouped", yes, yes, no, no, no)
	of("plain", no, no, no, no, no)
	p.loses = of("loses", yes, yes, no, no, no)
	p.wins = of("wins", no, no, no, no, no)
	post := func(path string, o any) {
		t.Helper()
		r, err := a.do(t.Context(), http.MethodPost, path, o)
		if err != nil || r.code != http.StatusCreated && r.code != http.StatusOK {
			t.Fatalf("POST %s: %d %s %v", path, r.code, clip(r.body), err)
		}
	}
	post(iamAPI+"/globalrolebindings", globalBinding("chief", "platform-admin", "chief"))
	post(iamAPI+"/globalroles", nodeLister("lister"))
	post(iamRoutes+"/clustermembers", []obj{{"username": "operator", "roleRef": "cluster-viewer"}})
	post(iamRoutes+"/workspaces/"+home+"/workspacemembers", []obj{{"username": "colleague", "roleRef": home + "-regular"}})
	post(iamRoutes+"/namespaces/"+home+"/namespacemembers", []obj{{"username": "developer", "roleRef": "viewer"}})
	post(iamAPI+"/groupbindings", iamObject("GroupBinding", "crew", obj{"groupRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "Group", "name": home},
		"users": []any{"grouped"}}))
	post(iamAPI+"/globalrolebindings", iamObject("GlobalRoleBinding", "crew", obj{
		"roleRef": obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "lister"}, "subjects": []any{
			obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": home},
			obj{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "kubesphere:serviceaccount:" + home + ":robot"},
			obj{"kind": "ServiceAccount", "name": "default", "namespace": home},
		}}))
	post(iamAPI+"/globalrolebindings", globalBinding("loses", "lister", "loses"))

	for _, one := range p.all {
		one.access = []string{p.logIn(t, one).Access}
		one.refresh, one.resting = p.logIn(t, one).Refresh, p.logIn(t, one).Refresh
	}
	p.programs[p.key(t, "chief")] = p.all[0].may
	robot, err := w.robot(t.Context(), home)
	if err != nil {
		t.Fatal(err)
	}
	p.programs[robot] = []int{yes, yes, no, no, no}
	native := decode[authenticationv1.TokenRequest](t, a.must(t, http.StatusCreated, http.MethodPost, "/api/v1/namespaces/"+home+"/serviceaccounts/default/token",
		obj{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": obj{}}).body)
	p.programs[native.Status.Token] = []int{yes, yes, no, no, no}
	p.logOut(t)
	return p
}

func (p *upgradeUsers) logIn(t *testing.T, one *upgradeUser) tokenReply {
	t.Helper()
	return tokens(t, p.w.base, one.name, password)
}

// key makes an API key of somebody.
func (p *upgradeUsers) key(t *testing.T, name string) string {
	t.Helper()
	c := loginAt(t, p.w.base, name, password)
	return decode[struct{ Token string }](t, c.must(t, http.StatusOK, http.MethodPost, iamRoutes+"/users/"+name+"/apikeys", obj{
		"description": "upgrade", "currentPassword": password, "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}).body).Token
}

// logOut ends a session of the chief's for good.
func (p *upgradeUsers) logOut(t *testing.T) {
	t.Helper()
	c := loginAt(t, p.w.base, "chief", password)
	c.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
	p.ended = append(p.ended, c.token)
}

// answers returns a condition: the requests of asks with the token are answered with these codes, by each replica.
func (p *upgradeUsers) answers(token string, codes []int) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, base := range p.w.bases() {
			got := make([]int, len(p.asks))
			for i, path := range p.asks {
				r, err := caller{base, token}.whenLoaded(ctx, http.MethodGet, path, nil)
				if err != nil {
					return err
				}
				got[i] = r.code
			}
			if !slices.Equal(got, codes) {
				return fmt.Errorf("%s answers %v, want %v, to %v", base, got, codes, p.asks)
			}
		}
		return nil
	}
}

// newRights gives one user a right and takes it from another.
func (p *upgradeUsers) newRights(t *testing.T, a caller) {
	t.Helper()
	a.must(t, http.StatusOK, http.MethodDelete, iamAPI+"/globalrolebindings/loses", nil)
	a.must(t, http.StatusCreated, http.MethodPost, iamAPI+"/globalrolebindings", globalBinding("wins", "lister", "wins"))
	p.loses.may, p.wins.may = p.wins.may, p.loses.may
}

// goOn fails the test unless everybody goes on where they were: with all tokens that they have been given so far, with what a refresh and a login
// give them now, and with the same rights. Those that are given now are kept for the next time.
func (p *upgradeUsers) goOn(t *testing.T) {
	t.Helper()
	for _, one := range p.all {
		for i, token := range one.access {
			eventually(t, fmt.Sprintf("the %d. access token of %s", i+1, one.name), p.answers(token, one.may))
		}
		next := p.refreshed(t, one.name, one.refresh)
		one.refresh = next.Refresh
		one.access = append(one.access, next.Access, p.logIn(t, one).Access)
		for _, token := range one.access[len(one.access)-2:] {
			eventually(t, "a new access token of "+one.name, p.answers(token, one.may))
		}
	}
	p.programs[p.key(t, "chief")] = p.all[0].may
	for token, may := range p.programs {
		eventually(t, "a token of a program", p.answers(token, may))
	}
	p.logOut(t)
	for i, token := range p.ended {
		for _, base := range p.w.bases() {
			within(t, revocation, fmt.Sprintf("the %d. session that was ended stays so", i+1),
				caller{base, token}.is(http.StatusUnauthorized, http.MethodGet, p.asks[0]))
		}
	}
}

// wakeUp refreshes the sessions that have rested since the first version.
func (p *upgradeUsers) wakeUp(t *testing.T) {
	t.Helper()
	for _, one := range p.all {
		eventually(t, "the session of "+one.name+" that rested", p.answers(p.refreshed(t, one.name, one.resting).Access, one.may))
	}
}

// refreshed exchanges a refresh token.
func (p *upgradeUsers) refreshed(t *testing.T, name, token string) tokenReply {
	t.Helper()
	r := refresh(t, p.w.base, token)
	if r.code != http.StatusOK {
		t.Fatalf("the refresh token of %s: %d %s", name, r.code, clip(r.body))
	}
	return decode[tokenReply](t, r.body)
}
