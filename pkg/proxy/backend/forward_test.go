package backend_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/extension"
)

// approve has an object of the backend get the access tokens of its callers, as the webhook would note it.
func (w *world) approve(resource string, spec obj) {
	w.t.Helper()
	w.set(resource, "shop", spec, obj{"metadata": obj{"name": "shop", "uid": "uid-shop", "annotations": obj{
		v1alpha1.AnnotationForward: "true", v1alpha1.AnnotationApprovedForward: w.digest(resource, spec)}}})
}

func (w *world) digest(resource string, spec obj) string {
	w.t.Helper()
	var o metav1.Object = &v1alpha1.APIService{}
	if resource == "reverseproxies" {
		o = &v1alpha1.ReverseProxy{}
	}
	raw, err := json.Marshal(obj{"metadata": obj{"name": "shop"}, "spec": spec})
	if err == nil {
		err = json.Unmarshal(raw, o)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return extension.ForwardDigest(o)
}

// X5: a backend for which that was approved gets the access token that the caller has sent in Authorization, and no other credential: no key, no cookie, no
// header of the client beside it. A redirect takes it nowhere.
func TestX5AnApprovedBackendGetsTheAccessToken(t *testing.T) {
	w := newWorld(t)
	secure := httptest.NewTLSServer(w.Config.Handler)
	defer secure.Close()
	bundle := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	service := func(url string) obj {
		return obj{"group": "shop.example.com", "version": "v1", "url": url, "caBundle": bundle}
	}
	pages := func(directives obj) obj {
		return obj{"matcher": obj{"path": "/proxy/shop/*"}, "upstream": obj{"url": secure.URL, "caBundle": bundle}, "directives": directives}
	}
	const groups, paths, sent, own = "apiservices", "reverseproxies", "ann.s.token", "Bearer ann.s.token"
	keyHolder := &user.DefaultInfo{Name: "ann", UID: "uid-ann", Groups: []string{"dev"}} // by an API key, which is no session
	nobody := &user.DefaultInfo{Name: user.Anonymous}
	robot := &user.DefaultInfo{Name: "system:serviceaccount:a:b", UID: "1"}
	for name, c := range map[string]struct {
		resource   string
		spec       obj
		unapproved bool
		by         user.Info
		sent       string // "" for a token in the cookie
		want       string // "own", "signed" for one that says who asks, or "none"
	}{
		"AGroup":                      {groups, service(secure.URL), false, ann, sent, "own"},
		"AGroupThatWasNotApproved":    {groups, service(secure.URL), true, ann, sent, "signed"},
		"AGroupByHTTP":                {groups, service(w.URL), false, ann, sent, "signed"},
		"AKey":                        {groups, service(secure.URL), false, keyHolder, "ksk_canary", "signed"},
		"ACookie":                     {groups, service(secure.URL), false, ann, "", "signed"},
		"NobodyWhoClaimsToBeSomebody": {groups, service(secure.URL), false, nobody, "x", "none"},
		"AServiceAccountOfTheCluster": {groups, service(secure.URL), false, robot, "x", "none"},
		"APage":                       {paths, pages(nil), false, ann, sent, "own"},
		"APageThatIsToldWhoAsks":      {paths, pages(obj{"authProxy": true}), false, ann, sent, "own"},
		"APageWithoutTheHeader":       {paths, pages(obj{"headerUp": []string{"-Authorization"}}), false, ann, sent, "none"},
		"APageWithoutSuchHeaders":     {paths, pages(obj{"headerUp": []string{"-Auth*"}}), false, ann, sent, "none"},
		"APageAndAKey":                {paths, pages(nil), false, keyHolder, "ksk_canary", "none"},
		"APageThatWasNotApproved":     {paths, pages(nil), true, ann, sent, "none"},
		"APageAndNobody":              {paths, pages(obj{"authProxy": true}), false, nobody, "x", "none"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.unapproved {
				w.set(c.resource, "shop", c.spec, obj{"metadata": obj{"name": "shop", "uid": "uid-shop",
					"annotations": obj{v1alpha1.AnnotationForward: "true"}}})
			} else {
				w.approve(c.resource, c.spec)
			}
			w.sent = c.sent
			path := things + "?token=canary"
			if c.resource == paths {
				path = "/proxy/shop/x"
			}
			rec := w.ask(c.by, http.MethodGet, path, "", "Authorization: Bearer canary-of-the-client", "Cookie: token=canary; refreshToken=canary",
				"X-Remote-User: canary", "X-Kubesphere-Authorization: canary")
			if rec.Code != http.StatusOK || w.got == nil {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			got := w.got.Header["Authorization"]
			switch text := strings.Join(got, "|"); c.want {
			case "own":
				if text != own {
					t.Errorf("%q", text)
				}
			case "signed":
				if len(got) != 1 || !strings.HasPrefix(text, "Bearer ey") {
					t.Errorf("%q", text)
				}
			default:
				if len(got) > 0 {
					t.Errorf("%q", text)
				}
			}
			if all := fmt.Sprint(w.got.Header); strings.Contains(all, "canary") {
				t.Errorf("it is told %s", all)
			}
		})
	}

	w.approve(groups, service(secure.URL))
	w.sent = sent
	t.Run("a redirect", func(t *testing.T) {
		reached := false
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
		defer elsewhere.Close()
		w.say = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", elsewhere.URL)
			rw.WriteHeader(http.StatusTemporaryRedirect)
		}
		defer func() { w.say = nil }()
		if rec := w.ask(ann, http.MethodGet, things, ""); rec.Code != http.StatusBadGateway || reached || w.got.Header.Get("Authorization") != own {
			t.Errorf("%d, elsewhere: %v", rec.Code, reached)
		}
	})
	t.Run("a change of its address", func(t *testing.T) {
		digest := obj{"metadata": obj{"name": "shop", "uid": "uid-shop", "annotations": obj{v1alpha1.AnnotationForward: "true",
			v1alpha1.AnnotationApprovedForward: w.digest(groups, service(secure.URL))}}}
		w.set(groups, "shop", service(secure.URL+"/elsewhere"), digest)
		if w.ask(ann, http.MethodGet, things, ""); w.got == nil || !strings.HasPrefix(w.got.Header.Get("Authorization"), "Bearer ey") {
			t.Errorf("%v", w.got)
		}
	})
	t.Run("a WebSocket", func(t *testing.T) {
		w.approve(groups, service(secure.URL))
		told := make(chan string, 1)
		w.say = func(rw http.ResponseWriter, r *http.Request) {
			told <- r.Header.Get("Authorization")
			if c, err := websocket.Accept(rw, r, nil); err == nil {
				_ = c.Close(websocket.StatusNormalClosure, "")
			}
		}
		defer func() { w.say = nil }()
		front := httptest.NewServer(w.serve(ann))
		defer front.Close()
		c, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(front.URL, "http")+things+"/x/talk", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.CloseNow()
		if got := <-told; got != own {
			t.Errorf("%q", got)
		}
	})
}
