package resources_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/resources/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kubeconfig/account"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
)

const aliceUID = "0a0a0a0a-1111-4222-8333-444444444444"

var tokenNow = time.Date(2026, 11, 26, 6, 0, 0, 0, time.UTC)

// tokenIssuer is a kube-apiserver with service accounts.
type tokenIssuer struct {
	t       *testing.T
	exists  bool
	deletes int // how often the service account is gone when its token is asked for
	asked   []string
}

func (k *tokenIssuer) RoundTrip(r *http.Request) (*http.Response, error) {
	const accounts = "/api/v1/namespaces/kubesphere-kubeconfigs/serviceaccounts"
	ctx, w := r.Context(), httptest.NewRecorder()
	if d := authz.DecisionFrom(ctx); d.Group != "kapis:platform:kubeconfig" || request.UserFrom(ctx).GetName() != "alice" {
		k.t.Errorf("%s %s as %v by %+v", r.Method, r.URL, request.UserFrom(ctx), d)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	asked := r.Method + strings.Replace(strings.TrimPrefix(r.URL.Path, accounts), "/user-"+aliceUID, " own", 1)
	k.asked = append(k.asked, asked)
	var sa corev1.ServiceAccount
	gone := apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "own")
	switch {
	case asked == "POST" && k.exists:
		web.WriteError(w, r, apierrors.NewAlreadyExists(corev1.Resource("serviceaccounts"), "own"))
	case asked == "POST":
		if err := json.Unmarshal(body, &sa); err != nil || sa.Name != "user-"+aliceUID || sa.Annotations[account.AnnotationUser] != "alice" ||
			sa.Annotations[account.AnnotationExpires] != "2026-11-26T18:00:00Z" {
			k.t.Errorf("%v: it makes %s", err, body)
		}
		k.exists = true
		_, _ = w.Write(body)
	case asked == "PATCH own":
		if want := `{"metadata":{"annotations":{"kubeconfig.kapis.dev/expires":"2026-11-26T18:00:00Z"}}}`; string(body) != want {
			k.t.Errorf("it changes %s", body)
		}
		_, _ = io.WriteString(w, `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"x"}}`)
	case asked == "POST own/token" && k.deletes > 0:
		k.deletes, k.exists = k.deletes-1, false
		web.WriteError(w, r, gone)
	case asked == "POST own/token":
		var tr authenticationv1.TokenRequest
		if err := json.Unmarshal(body, &tr); err != nil || tr.Spec.ExpirationSeconds == nil || tr.Spec.BoundObjectRef != nil {
			k.t.Errorf("%v: it asks for %s", err, body)
		}
		tr.Status.Token = "canary"
		tr.Status.ExpirationTimestamp = metav1.NewTime(tokenNow.Add(time.Duration(*tr.Spec.ExpirationSeconds) * time.Second))
		_ = json.NewEncoder(w).Encode(&tr)
	default:
		k.t.Errorf("it is asked for %s", asked)
		web.WriteError(w, r, gone)
	}
	return w.Result(), nil
}

func (k *tokenIssuer) get(t *testing.T, method string, who user.Info) *httptest.ResponseRecorder {
	t.Helper()
	tokens := &kubeconfig.Tokens{Server: "https://kube.example", Authority: []byte("ca"), MaxAge: 12 * time.Hour,
		AsCaller: caller.Client{Kube: k}, Now: func() time.Time { return tokenNow }}
	r := httptest.NewRequest(method, "/", nil)
	r = r.WithContext(authz.WithDecision(request.WithUser(r.Context(), who), authz.Allow("", "")))
	rec := httptest.NewRecorder()
	if got, err := tokens.Get(r, "alice"); err != nil {
		web.WriteError(rec, r, err)
	} else {
		got.(web.Responder).Respond(rec, r)
	}
	return rec
}

func loggedIn(name, uid string, change func(*session.Session)) user.Info {
	s := &session.Session{Name: "s", User: name, UserUID: uid, Expires: tokenNow.Add(30 * 24 * time.Hour)}
	if change != nil {
		change(s)
	}
	return session.WithSession(&user.DefaultInfo{Name: name, UID: uid}, s)
}

func TestATokenIsForItsUserAndForALogin(t *testing.T) { // O47
	is := func(change func(*session.Session)) user.Info { return loggedIn("alice", aliceUID, change) }
	for name, c := range map[string]struct {
		who  user.Info
		want string // part of the answer
	}{
		"AnAPIKey": {&user.DefaultInfo{Name: "alice", UID: aliceUID,
			Extra: map[string][]string{iam.ExtraCredential: {iam.CredentialAPIKey}}}, "outlive"},
		"AServiceAccountOfThatName": {&user.DefaultInfo{Name: "alice", UID: aliceUID}, "outlive"},
		"SomebodyElse":              {loggedIn("root", "0c0c0c0c-1111-4222-8333-444444444444", nil), "users get their own"},
		"Nobody":                    {nil, "users get their own"},
		"ASessionOfAnother":         {is(func(s *session.Session) { s.User = "bob" }), "outlive"},
		"ASessionOfAFormerUser":     {is(func(s *session.Session) { s.UserUID = "0d0d0d0d-1111-4222-8333-444444444444" }), "outlive"},
		"ARegistration":             {is(func(s *session.Session) { s.Registration = &iam.Registration{} }), "outlive"},
		"AUIDThatIsNone":            {loggedIn("alice", "0a0a*", nil), "outlive"},
		"ALoginThatEnds":            {is(func(s *session.Session) { s.Expires = tokenNow.Add(9 * time.Minute) }), "ends too soon"},
	} {
		t.Run(name, func(t *testing.T) {
			k := &tokenIssuer{t: t}
			if rec := k.get(t, http.MethodGet, c.who); rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), c.want) || len(k.asked) != 0 {
				t.Errorf("%d %s after %q", rec.Code, rec.Body, k.asked)
			}
		})
	}
	k := &tokenIssuer{t: t}
	if rec := k.get(t, http.MethodHead, is(nil)); rec.Code != http.StatusBadRequest || len(k.asked) != 0 {
		t.Errorf("a HEAD: %d after %q", rec.Code, k.asked)
	}
}

func TestAKubeconfigWithATokenActsAsItsUser(t *testing.T) { // O47
	for name, c := range map[string]struct {
		kube  tokenIssuer
		who   user.Info
		asked string
		ends  string
	}{
		"TheFirst":  {tokenIssuer{}, loggedIn("alice", aliceUID, nil), "POST, POST own/token", "2026-11-26T18:00:00Z"},
		"ALaterOne": {tokenIssuer{exists: true}, loggedIn("alice", aliceUID, nil), "POST, PATCH own, POST own/token", "2026-11-26T18:00:00Z"},
		"MadeAgain": {tokenIssuer{exists: true, deletes: 1}, loggedIn("alice", aliceUID, nil), "POST, PATCH own, POST own/token, POST, POST own/token",
			"2026-11-26T18:00:00Z"},
		"AShortLogin": {tokenIssuer{}, loggedIn("alice", aliceUID, func(s *session.Session) { s.Expires = tokenNow.Add(15 * time.Minute) }),
			"POST, POST own/token", "2026-11-26T06:15:00Z"},
	} {
		t.Run(name, func(t *testing.T) {
			c.kube.t = t
			rec := c.kube.get(t, http.MethodGet, c.who)
			if rec.Code != http.StatusOK || rec.Header().Get("Cache-Control") != "no-store" || strings.Join(c.kube.asked, ", ") != c.asked ||
				!strings.HasPrefix(rec.Body.String(), "# ") || !strings.Contains(rec.Body.String(), c.ends) {
				t.Fatalf("%d %v %q\n%s", rec.Code, rec.Header(), c.kube.asked, rec.Body)
			}
			cfg, err := clientcmd.RESTConfigFromKubeConfig(rec.Body.Bytes())
			if err != nil || cfg.Host != "https://kube.example" || cfg.BearerToken != "canary" || cfg.Impersonate.UserName != "alice" ||
				len(cfg.Impersonate.Groups) != 0 || string(cfg.CAData) != "ca" {
				t.Errorf("%v %+v", err, cfg)
			}
		})
	}
	k := &tokenIssuer{t: t, deletes: 100}
	if rec := k.get(t, http.MethodGet, loggedIn("alice", aliceUID, nil)); rec.Code != http.StatusNotFound || len(k.asked) != 6 {
		t.Errorf("deleted again and again: %d after %q", rec.Code, k.asked)
	}
}
