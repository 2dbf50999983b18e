package resources_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/kapis/resources"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/inventory"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/remote"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// transport is kube-apiserver, called as the caller.
type transport func(r *http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// A certificate acts as its user: a caller who may get the sub-resource of others gets no more of theirs than one who may read the Secret.
func TestACertificateIsForItsUser(t *testing.T) {
	const canary = "client-key-data: canary"
	alice := &user.DefaultInfo{Name: "alice"}
	key := &user.DefaultInfo{Name: "alice", Extra: map[string][]string{iam.ExtraCredential: {iam.CredentialAPIKey}}}
	for name, c := range map[string]struct {
		who  user.Info
		may  bool // read Secrets
		code int
	}{
		"Own":                 {session.WithSession(alice, &session.Session{User: "alice"}), false, http.StatusOK},
		"WithAnAPIKey":        {key, false, http.StatusForbidden},
		"WithATokenOfMinutes": {alice, false, http.StatusForbidden},
		"OfSomebodyElse":      {session.WithSession(&user.DefaultInfo{Name: "bob"}, &session.Session{User: "bob"}), false, http.StatusForbidden},
		"ByWhoReadsSecret":    {&user.DefaultInfo{Name: "root"}, true, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			certificates := &kubeconfig.Certificates{
				Namespace: "kubesphere-system",
				Own: func(_ context.Context, name string) (*corev1.Secret, error) {
					if name != "kubeconfig-alice" {
						return nil, errors.New(name + " was read")
					}
					return &corev1.Secret{Data: map[string][]byte{"config": []byte(canary)}}, nil
				},
				AsCaller: caller.Client{
					May: authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
						if c.may && r.Resource == "secrets" && r.Namespace == "kubesphere-system" && r.Name == "kubeconfig-alice" {
							return authz.Allow("", ""), nil
						}
						return authz.Decision{}, nil
					}),
					Kube: transport(func(r *http.Request) (*http.Response, error) {
						rec := httptest.NewRecorder()
						_, _ = rec.WriteString(`{"data":{"config":"` + "Y2xpZW50LWtleS1kYXRhOiBjYW5hcnk=" + `"}}`)
						return rec.Result(), nil
					}),
				},
			}
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			got, err := certificates.Get(request.WithUser(r.Context(), c.who), "alice")
			rec := httptest.NewRecorder()
			if err != nil {
				web.WriteError(rec, r, err)
			} else {
				got.(web.Responder).Respond(rec, r)
			}
			if rec.Code != c.code || strings.Contains(rec.Body.String(), canary) != (c.code == http.StatusOK) {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			if c.code == http.StatusOK && rec.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%v", rec.Header())
			}
		})
	}
}

func TestTheRouteGivesCertificatesWhereTheyAreKept(t *testing.T) {
	k := kubeconfig.Handler{IsUser: func(string) bool { return true }, Certificates: &kubeconfig.Certificates{
		Own: func(context.Context, string) (*corev1.Secret, error) { return nil, nil },
	}}
	r := httptest.NewRequest(http.MethodGet, resources.RootV1alpha2+"/users/alice/kubeconfig", nil)
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	kapistest.Container((&resources.V1alpha2{Inventory: &inventory.Handler{}, Remotes: remote.New(remote.Options{}), Kubeconfigs: &k}).WebService()).
		ServeHTTP(rec, r.WithContext(request.WithUser(request.WithInfo(r.Context(), info),
			session.WithSession(&user.DefaultInfo{Name: "alice"}, &session.Session{User: "alice"}))))
	if rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), "there is no certificate") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}
