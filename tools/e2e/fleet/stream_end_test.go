package fleet

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// F23: what is open at a member ends when its user logs out or is gone, also a watch of all clusters.
func TestAWatchOfAMemberEndsWithItsUser(t *testing.T) {
	a := admin(t)
	a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalroles", nameRole("enders"))
	t.Cleanup(func() { _, _ = a.ask(context.Background(), http.MethodDelete, iam+"/globalroles/enders", nil) })
	for name, end := range map[string]func(t *testing.T, u user){
		"logout": func(t *testing.T, u user) {
			t.Helper()
			u.must(t, http.StatusOK, http.MethodGet, "/oauth/logout", nil)
		},
		"deleted": func(t *testing.T, u user) {
			t.Helper()
			a.must(t, http.StatusOK, http.MethodDelete, iam+"/users/"+u.name, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t, "ends-"+name)
			b := nameBinding("enders-"+name, u.name)
			b["roleRef"] = obj{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "enders"}
			a.must(t, http.StatusCreated, http.MethodPost, iam+"/globalrolebindings", b)
			t.Cleanup(func() {
				_, _ = a.ask(context.Background(), http.MethodDelete, iam+"/globalrolebindings/enders-"+name, nil)
			})
			const list = "/kapis/resources.kubesphere.io/v1alpha3/namespaces/default/configmaps"
			streams := map[string]<-chan string{}
			for _, prefix := range []string{"/clusters/" + direct, "/clusters/" + dialer, "/fleet"} {
				u.becomes(t, patience, http.StatusOK, http.MethodGet, prefix+list, nil)
				lines, stop := events(t, u, prefix+list+"?watch=true")
				defer stop()
				streams[prefix] = lines
			}
			end(t, u)
			deadline := time.After(patience)
			for prefix, lines := range streams {
				for open := true; open; {
					select {
					case _, open = <-lines:
					case <-deadline:
						t.Fatalf("the watch of %s goes on", prefix)
					}
				}
			}
		})
	}
}
