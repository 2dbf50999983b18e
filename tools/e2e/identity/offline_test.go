package identity

import (
	"net/http"
	"testing"
)

// S12: a session that outlives its browser's lives no longer than its person is known to the provider that he came from.
func TestNobodyOutlivesHisProvider(t *testing.T) {
	for name, c := range map[string]struct {
		noRefresh, gone, lives bool
	}{
		"WhoIsStillThere":          {lives: true},
		"WhoIsGone":                {gone: true},
		"WhomNobodyCanBeAskedOf":   {noRefresh: true},
		"GoneWhereNobodyIsAskedOf": {noRefresh: true, gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, "offline")
			u.NoRefresh = c.noRefresh
			b := newBrowser(t)
			b.arrives(t, u.consent(t, u.begin(t, b, b.open(t, "/oauth/login")))).shows(t, http.StatusOK, "Your account")
			got := harbor.ask("scope", "openid offline_access").tokens(t, b)
			bound := portal.ask().tokens(t, b)

			b.open(t, "/oauth/logout?"+values("id_token_hint", bound.ID, "post_logout_redirect_uri", portal.LogoutURIs[0]).Encode()).leads(t, u.Base+"/logout")
			dead(t, bound.Access)
			b.open(t, "/oauth/account").shows(t, http.StatusOK, "Log in")
			alive(t, got.Access)
			if c.gone {
				u.Remove()
			}
			if c.lives {
				next := harbor.refresh(t, got.Refresh).tokens(t)
				alive(t, next.Access)
				aliveAt(t, replica(t), next.Access)
				return
			}
			harbor.refresh(t, got.Refresh).fails(t, http.StatusBadRequest, "invalid_grant")
			dead(t, got.Access)
			over(t, replica(t), got.Access)
		})
	}
}
