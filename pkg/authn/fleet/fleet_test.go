package fleet_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authn/fleet"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/cluster/link"
	"kapis.dev/ks-apiserver/pkg/cluster/linktest"
)

// answered is what an Authenticator says of a request that comes over a link.
type answered struct {
	user user.Info
	err  error
}

// overLink returns what sends headers over a link to an Authenticator.
func overLink(t *testing.T, a *fleet.Authenticator) func(http.Header) answered {
	t.Helper()
	const uid = "0f8fad5b-d9cb-469f-a165-70867728950e"
	by, answers := linktest.NewAuthority(t), make(chan answered, 1)
	hub, member := linktest.Pair(t)
	h := &link.Handler{Identity: by.Member(t, uid), Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		resp, ok, err := a.AuthenticateRequest(r)
		switch {
		case !a.Trusts(r):
			t.Error("the hub is not trusted")
		case ok:
			answers <- answered{user: resp.User}
		default:
			answers <- answered{err: err}
		}
	})}
	go func() { _ = h.Serve(t.Context(), member, 0) }()
	l, err := link.Open(t.Context(), hub, uid, by.Hub(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return func(header http.Header) answered {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://member/", nil)
		r.RequestURI, r.Header = "", header
		resp, err := l.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return <-answers
	}
}

// F16, F17: the hub names people, and neither Kubernetes' own identities nor this server's.
func TestTheHubNamesPeople(t *testing.T) {
	local := map[string]string{"local": "u-local", "both": "u-both"}
	send := overLink(t, &fleet.Authenticator{Local: func(name string) (string, error) { return local[name], nil }})
	for name, tc := range map[string]struct {
		header http.Header
		want   string
	}{
		"APerson":           {http.Header{"X-Remote-User": {"ann"}, "X-Remote-Uid": {"1"}}, "ann 1 system:authenticated"},
		"WithGroups":        {http.Header{"X-Remote-User": {"ann"}, "X-Remote-Uid": {"1"}, "X-Remote-Group": {"dev", "system:masters", "kapis:platform", ""}}, "ann 1 dev system:authenticated"},
		"Nobody":            {http.Header{}, ""},
		"WithoutAUID":       {http.Header{"X-Remote-User": {"ann"}}, ""},
		"TwoNames":          {http.Header{"X-Remote-User": {"ann", "bob"}, "X-Remote-Uid": {"1"}}, ""},
		"TwoUIDs":           {http.Header{"X-Remote-User": {"ann"}, "X-Remote-Uid": {"1", "2"}}, ""},
		"AServiceAccount":   {http.Header{"X-Remote-User": {"system:serviceaccount:kube-system:default"}, "X-Remote-Uid": {"1"}}, ""},
		"ThisServer":        {http.Header{"X-Remote-User": {"kapis:hub"}, "X-Remote-Uid": {"1"}}, ""},
		"ANameOfTheCluster": {http.Header{"X-Remote-User": {"local"}, "X-Remote-Uid": {"1"}}, ""},
		"OneOfBoth":         {http.Header{"X-Remote-User": {"both"}, "X-Remote-Uid": {"u-both"}}, "both u-both system:authenticated"},
	} {
		t.Run(name, func(t *testing.T) {
			got := send(tc.header)
			if tc.want == "" {
				if got.err == nil || got.user != nil {
					t.Errorf("got %v, want an error", got.user)
				}
				return
			}
			if got.err != nil || strings.Join(append([]string{got.user.GetName(), got.user.GetUID()}, got.user.GetGroups()...), " ") != tc.want {
				t.Errorf("got %v, %v, want %s", got.user, got.err, tc.want)
			}
		})
	}
	scoped := send(http.Header{"X-Remote-User": {"ann"}, "X-Remote-Uid": {"1"}, "X-Remote-Extra-Scope": {"read"}, "X-Remote-Extra-Other": {"x"}})
	if scoped.err != nil || len(scoped.user.GetExtra()) != 1 || !slices.Equal(scoped.user.GetExtra()[authz.ExtraScope], []string{"read"}) {
		t.Errorf("got %v, %v, want the scope alone", scoped.user, scoped.err)
	}
}

// Whoever is not the hub names nobody.
func TestOnlyLinksCount(t *testing.T) {
	a := &fleet.Authenticator{}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(fleet.HeaderUser, "ann")
	r.Header.Set(fleet.HeaderUID, "1")
	if resp, ok, err := a.AuthenticateRequest(r); resp != nil || ok || err != nil || a.Trusts(r) {
		t.Errorf("got %v, %v, %v, want no opinion", resp, ok, err)
	}
}

// O49: while the users of this cluster are not known in full, the hub's user of a name may be another than the one here: nobody is let in by a name.
func TestO49WhoseANameIsHasToBeKnown(t *testing.T) {
	send := overLink(t, &fleet.Authenticator{Local: func(name string) (string, error) {
		if name == "late" {
			return "", apierrors.NewServiceUnavailable("not all users are known")
		}
		return "", nil
	}})
	for name, late := range map[string]bool{"late": true, "ann": false} {
		got := send(http.Header{"X-Remote-User": {name}, "X-Remote-Uid": {"1"}})
		if (got.user == nil) != late || apierrors.IsServiceUnavailable(got.err) != late {
			t.Errorf("%s: %v, %v", name, got.user, got.err)
		}
	}
}
