package registry

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/egress/egresstest"
)

func TestALoginIsTriedForReal(t *testing.T) {
	for _, access := range []string{"basic", "token"} {
		w := newWorld(t, access, nil)
		c := local(t)
		for _, r := range []struct {
			name string
			who  Account
			code int
		}{
			{"RightPassword", ann, 0},
			{"WrongPassword", Account{"ann", canary + "x"}, 400},
			{"WrongUser", Account{"bob", canary}, 400},
			{"Nobody", Account{}, 400},
		} {
			t.Run(access+"/"+r.name, func(t *testing.T) {
				is(t, c.Verify(t.Context(), w.host, r.who, true), r.code, "refuses the credentials")
				is(t, c.Verify(t.Context(), "http://"+w.host+"/v2/", r.who, true), r.code, "refuses the credentials")
			})
		}
	}
	is(t, local(t).Verify(t.Context(), newWorld(t, "open", nil).host, Account{}, true), 0, "")
}

func TestWhatIsNoAddressIsRefused(t *testing.T) {
	for _, host := range []string{"", " ", "a b", "user@host", "host:port:port", "host?x=1", "::1", strings.Repeat("x", 300) + ":x", "[::1", "host#f"} {
		is(t, local(t).Verify(t.Context(), host, ann, true), 400, "")
	}
}

func TestWithoutTLSNothingIsSentUnlessDeclared(t *testing.T) { // S21
	w := newWorld(t, "basic", nil)
	is(t, local(t).Verify(t.Context(), w.host, ann, false), 400, "does not speak TLS")
	for _, r := range w.seen() {
		t.Errorf("%s %s was sent", r.Method, r.URL)
	}
	tls := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("was asked") }))
	tls.Config.ErrorLog = quiet // of the certificate that is refused
	tls.StartTLS()
	defer tls.Close()
	is(t, local(t).Verify(t.Context(), tls.Listener.Addr().String(), ann, false), 400, InsecureAnnotation)
}

func TestADeclaredRegistryMayHaveAnyCertificate(t *testing.T) {
	tls := httptest.NewUnstartedServer(egresstest.BasicAuth(ann.Username, canary, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	tls.Config.ErrorLog = quiet // of the attempts without TLS
	tls.StartTLS()
	defer tls.Close()
	is(t, local(t).Verify(t.Context(), tls.Listener.Addr().String(), ann, true), 0, "")
}

func TestUsersDoNotReachThisMachineOrMetadata(t *testing.T) { // S20
	w := newWorld(t, "basic", nil)
	_, port, _ := net.SplitHostPort(w.host)
	c := reaching(t, Options{})
	for _, host := range []string{w.host, "localhost:" + port, "0.0.0.0:" + port, "[::1]:" + port, "[::ffff:7f00:1]:" + port, "169.254.169.254"} {
		for _, insecure := range []bool{true, false} {
			is(t, c.Verify(t.Context(), host, ann, insecure), 400, "")
		}
	}
	if _, err := c.Image(t.Context(), w.host+"/a", w.creds(ann)); err == nil {
		t.Error("an image was read")
	}
	if _, err := c.Tags(t.Context(), w.host+"/a", w.creds(ann)); err == nil {
		t.Error("tags were read")
	}
	if _, err := c.Search(t.Context(), "a", w.creds(ann)); err == nil {
		t.Error("a search was answered")
	}
	if n := len(w.seen()); n > 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestARegistryCannotSendTheServerToMetadata(t *testing.T) { // S20: redirects, token realms
	for name, h := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		},
		"realm": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://169.254.169.254/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"realm in disguise": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://[64:ff9b::a9fe:a9fe]/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		},
		"redirects without end": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "open", h)
			is(t, local(t).Verify(t.Context(), w.host, ann, true), 400, w.host)
			_, err := local(t).Image(t.Context(), w.host+"/a:b", w.creds(ann))
			is(t, err, 400, w.host)
			if n := len(w.seen()); n > 2*maxRequests {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestCredentialsGoToNoOtherSite(t *testing.T) {
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		stolen = append(stolen, r.Header.Get("Authorization"))
		_, _ = fmt.Fprint(w, `{"token":"of-ann"}`)
	}))
	defer thief.Close()
	_, port, _ := net.SplitHostPort(thief.Listener.Addr().String())
	elsewhere := "http://localhost:" + port // another name than 127.0.0.1
	for name, h := range map[string]http.Handler{
		"realm": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="%s/token",service="x"`, elsewhere))
			w.WriteHeader(http.StatusUnauthorized)
		}),
		"redirect": egresstest.BasicAuth(ann.Username, canary, http.RedirectHandler(elsewhere+"/x", http.StatusTemporaryRedirect)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "open", h)
			_ = local(t).Verify(t.Context(), w.host, ann, true)
			_, _ = local(t).Image(t.Context(), w.host+"/a:b", w.creds(ann))
			_, _ = local(t).Tags(t.Context(), w.host+"/a", w.creds(ann))
			_, _ = local(t).Search(t.Context(), "a", w.creds(ann))
			for _, a := range stolen {
				if a != "" {
					t.Errorf("credentials went to another site: %s", a)
				}
			}
		})
	}
}

func TestWhatARegistryAnswersIsNotInErrors(t *testing.T) { // S20: an answer from within must not be read through us
	for _, code := range []int{200, 302, 400, 401, 403, 404, 429, 500, 503} {
		w := newWorld(t, "open", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/v2/") && code != 401 {
				return
			}
			w.Header().Set("WWW-Authenticate", `Basic realm="internal-answer"`)
			w.WriteHeader(code)
			_, _ = fmt.Fprint(w, `{"errors":[{"code":"UNKNOWN","message":"internal-answer"}]} internal-answer`)
		}))
		for name, f := range map[string]func() error{
			"verify": func() error { return local(t).Verify(t.Context(), w.host, ann, true) },
			"image":  func() error { _, err := local(t).Image(t.Context(), w.host+"/a:b", w.creds(ann)); return err },
			"tags":   func() error { _, err := local(t).Tags(t.Context(), w.host+"/a", w.creds(ann)); return err },
			"search": func() error { _, err := local(t).Search(t.Context(), "a", w.creds(ann)); return err },
		} {
			want := map[int]int{404: 404, 429: 429}[code]
			if want == 0 || name == "verify" && code != 401 {
				want = 400
			}
			if name == "search" && code == 200 {
				want = 404
			}
			err := f()
			if name == "verify" && code != 401 {
				want = 0
			}
			if err == nil && want != 0 {
				t.Errorf("%s, %d: no error", name, code)
			}
			is(t, err, want, "")
		}
	}
}
