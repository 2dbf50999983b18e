package anonymous_test

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authn/anonymous"
)

// S54: a caller who sends no Authorization header at all is anonymous, and no other.
func TestAnonymousIsOnlyWhoSendsNoHeader(t *testing.T) {
	for name, test := range map[string]struct {
		header http.Header
		ok     bool
	}{
		"none":           {http.Header{}, true},
		"other headers":  {http.Header{"Cookie": {"token=x"}}, true},
		"empty":          {http.Header{"Authorization": {""}}, false},
		"no values":      {http.Header{"Authorization": nil}, false},
		"bearer":         {http.Header{"Authorization": {"Bearer x"}}, false},
		"basic":          {http.Header{"Authorization": {"Basic eDp5"}}, false},
		"several, empty": {http.Header{"Authorization": {"", ""}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			resp, ok, err := anonymous.Authenticator{}.AuthenticateRequest(&http.Request{Header: test.header})
			if err != nil || ok != test.ok {
				t.Fatalf("ok %v, %v", ok, err)
			}
			if ok && (resp.User.GetName() != "system:anonymous" || len(resp.User.GetGroups()) != 1 || resp.User.GetGroups()[0] != "system:unauthenticated") {
				t.Errorf("got %+v", resp.User)
			}
		})
	}
}
