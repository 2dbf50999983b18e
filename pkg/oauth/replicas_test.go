package oauth

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"golang.org/x/crypto/bcrypt"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/iamtest"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	iampassword "kapis.dev/ks-apiserver/pkg/iam/password"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth/browser"
	"kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
)

const (
	issuerURL = "https://ks.example/base"
	password  = "P@88w0rd"
)

// cluster is a fake of the part of kube-apiserver that sessions need, over HTTP.
type cluster struct {
	mu       sync.Mutex
	rv       int
	sessions map[string]*v1alpha1.Session
	sinks    []store.Sink
	writes   int
	down     bool
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := strings.Trim(strings.TrimPrefix(r.URL.Path, "/apis/session.kapis.dev/v1alpha1/sessions"), "/")
	old := c.sessions[name]
	var in v1alpha1.Session
	if r.Method == http.MethodPost || r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			c.fail(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
			return
		}
	}
	switch {
	case c.down:
		c.fail(w, http.StatusInternalServerError, metav1.StatusReasonInternalError)
	case r.Method == http.MethodPost:
		if c.sessions[in.Name] != nil {
			c.fail(w, http.StatusConflict, metav1.StatusReasonAlreadyExists)
			return
		}
		in.UID = types.UID("uid-" + in.Name)
		c.put(w, &in, http.StatusCreated)
	case old == nil:
		c.fail(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	case r.Method == http.MethodGet:
		c.write(w, http.StatusOK, old)
	case r.Method == http.MethodPut && in.ResourceVersion != old.ResourceVersion:
		c.fail(w, http.StatusConflict, metav1.StatusReasonConflict)
	case r.Method == http.MethodPut:
		c.put(w, &in, http.StatusOK)
	case r.Method == http.MethodDelete:
		c.writes++
		delete(c.sessions, name)
		for _, s := range c.sinks {
			s.Delete("", name)
		}
		c.write(w, http.StatusOK, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess})
	}
}

func (c *cluster) put(w http.ResponseWriter, s *v1alpha1.Session, code int) {
	c.rv++
	c.writes++
	s.ResourceVersion = fmt.Sprint(c.rv)
	s.Generation++
	c.sessions[s.Name] = s
	raw, _ := json.Marshal(s)
	for _, k := range c.sinks {
		k.Set(&store.Object{Name: s.Name, Raw: raw})
	}
	c.write(w, code, s)
}

func (c *cluster) fail(w http.ResponseWriter, code int, reason metav1.StatusReason) {
	c.write(w, code, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason)})
}

func (c *cluster) write(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}

func (c *cluster) setDown(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
}

func (c *cluster) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

func (c *cluster) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for n := range c.sessions {
		out = append(out, n)
	}
	return out
}

// server is one replica, listening on loopback.
type server struct {
	*httptest.Server
	users    *iam.UserIndex
	sessions *session.Store
	verifier *token.Verifier
	tokens   *token.Issuer
	oauth    *Server
}

// browserHeader names, in these tests, the session of the browser of a request.
const browserHeader = "X-Test-Browser"

// withBrowser returns a request with the cookie of the session that its header names.
func (s *server) withBrowser(r *http.Request) *http.Request {
	name := r.Header.Get(browserHeader)
	if name == "" {
		return r
	}
	sealed, err := s.oauth.sealer.Seal("browser", map[string]string{"s": name})
	if err != nil {
		panic(err)
	}
	r = r.Clone(r.Context())
	r.AddCookie(s.oauth.logins.Cookies.New(r, browser.SessionCookie, sealed))
	return r
}

// browser logs a user in in a browser, and returns the name of its session.
func (s *server) browser(t testing.TB, user string) string {
	t.Helper()
	sess, _, err := s.sessions.Open(t.Context(), session.Login{AuthnResult: iam.AuthnResult{User: s.users.ByName(user), Methods: []string{"pwd"}}})
	if err != nil {
		t.Fatal(err)
	}
	return sess.Name
}

type replicas struct {
	*cluster
	clock   *clocktesting.FakeClock
	servers []*server
}

// stand has what tests share because it is expensive: keys, and the hash of the password.
var stand = sync.OnceValues(func() (*token.KeySet, string) {
	keys, err := token.Generate(startTime())
	if err != nil {
		panic(err)
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	return keys, string(hash)
})

func startTime() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }

const harborURI = "https://harbor.example/c/oidc/callback?tenant=a"

func testClients() []client.Client {
	return []client.Client{
		{Name: "kubesphere", Secret: "kubesphere", Trusted: true},
		{Name: "od:d +c", Secret: "s:e %c+r", Trusted: true, ScopeRestrictions: []string{"openid"},
			PostLogoutRedirectURIs: []string{"https://app.example/bye?a=b"}},
		{Name: "harbor", Secret: "harbor-secret-1234", RedirectURIs: []string{harborURI}, PostLogoutRedirectURIs: []string{"https://harbor.example/bye"}},
		{Name: "argo", Secret: "argo-secret", GrantMethod: "prompt", RedirectURIs: []string{"https://argo.example/cb", "https://argo.example/other"},
			ScopeRestrictions: []string{"openid", "groups", "offline_access"}},
		{
			Name:              "helm",
			Secret:            "helm-secret-123456",
			GrantMethod:       "prompt",
			RedirectURIs:      []string{helmURI},
			ScopeRestrictions: []string{"openid", "offline_access", "api"},
		},
		{
			Name:         "native",
			GrantMethod:  "prompt",
			RedirectURIs: []string{"http://127.0.0.1/cb", "https://localhost/cb", "com.example.native:/cb", "https://native.example/cb"},
		},
		{Name: "narrow", Secret: "narrow-secret-1234", ScopeRestrictions: []string{"openid", "profile"}},
		{Name: "spa", GrantMethod: "auto", RedirectURIs: []string{"https://spa.example/cb", "http://127.0.0.1/cb", "com.example.app:/cb"}},
		{Name: "denied", Secret: "denied-secret", GrantMethod: "deny", RedirectURIs: []string{"https://denied.example/cb"}},
		{Name: "cli"},
		{Name: "short", Secret: "short", Trusted: true, AccessTokenMaxAgeSeconds: 300, AccessTokenInactivityTimeoutSeconds: 60},
	}
}

type settings struct {
	life session.Lifetime
	edit func(*Options)
}

func newReplicas(t testing.TB, n int, edit func(*settings)) *replicas {
	t.Helper()
	set := settings{life: session.Lifetime{MaxAge: 2 * time.Hour, Inactivity: time.Hour}}
	if edit != nil {
		edit(&set)
	}
	f := &replicas{cluster: &cluster{sessions: map[string]*v1alpha1.Session{}}, clock: clocktesting.NewFakeClock(startTime())}
	kube := httptest.NewServer(f.cluster)
	t.Cleanup(kube.Close)
	for range n {
		f.servers = append(f.servers, f.newServer(t, kube.URL, set))
	}
	_, hash := stand()
	f.user("alice", hash, iamapi.UserActive)
	return f
}

func (f *replicas) newServer(t testing.TB, kube string, set settings) *server {
	t.Helper()
	keys, _ := stand()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	clients, err := client.NewRegistry(fake.NewClientset().CoreV1().Secrets("kubesphere-system"), testClients(), set.life)
	must(err)
	api, err := session.NewClient(&rest.Config{Host: kube, QPS: -1})
	must(err)
	s := &server{users: iam.NewUserIndex(), tokens: &token.Issuer{Keys: keys, URL: issuerURL, Audience: "kapis:host", Now: f.clock.Now}}
	s.sessions, err = session.New(session.Options{API: api, Users: s.users, Keys: keys, Lifetime: clients.Lifetime,
		ClientCredential: clients.Credential, Skew: 30 * time.Second, Now: f.clock.Now})
	must(err)
	f.sinks = append(f.sinks, s.sessions)
	s.verifier, err = token.NewVerifier(token.Rules{Keys: keys, Issuer: issuerURL, Audience: "kapis:host", Leeway: 30 * time.Second,
		Now: f.clock.Now, CacheSize: 64})
	must(err)
	passwords, err := iampassword.New(s.users, nil)
	must(err)
	options := Options{Issuer: issuerURL, Tokens: s.tokens, Verifier: s.verifier, Keys: keys, Clients: clients, Sessions: s.sessions,
		Authenticator: &iamlogin.Authenticator{Passwords: passwords, Now: f.clock.Now}, PasswordGrant: true, Now: f.clock.Now}
	if set.edit != nil {
		set.edit(&options)
	}
	o, err := New(options)
	must(err)
	s.oauth = o
	container := restful.NewContainer()
	for _, ws := range o.WebServices() {
		container.Add(ws)
	}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { container.ServeHTTP(w, s.withBrowser(r)) }))
	t.Cleanup(s.Close)
	return s
}

func (f *replicas) user(name, hash string, state iamapi.UserState) {
	u := &iamapi.User{}
	u.Name, u.UID = name, types.UID("uid-"+name)
	u.Spec = iamapi.UserSpec{Email: name + "@example.com", DisplayName: "The " + name, Lang: "en", Password: hash, Groups: []string{"dev"}}
	u.Status.State = state
	u.Annotations = map[string]string{iamapi.AnnotationUninitialized: "true"}
	link(u)
	raw, _ := json.Marshal(u)
	for _, s := range f.servers {
		s.users.Set(&store.Object{Name: name, Raw: raw})
	}
}

// link links a user to the identities of the tests' providers: the fakes say which of the users logs in.
func link(u *iamapi.User) {
	iamtest.WithLink("github", "4711")(u)
	iamtest.WithLink("corp", "1")(u)
}

// edit changes a user in all replicas' indexes.
func (f *replicas) edit(name string, change func(*iamapi.User)) {
	_, hash := stand()
	u := &iamapi.User{}
	u.Name, u.UID = name, types.UID("uid-"+name)
	u.Spec = iamapi.UserSpec{Email: name + "@example.com", DisplayName: "The " + name, Lang: "en", Password: hash, Groups: []string{"dev"}}
	for _, s := range f.servers {
		if old := s.users.ByName(name); old != nil {
			u.Status.State = old.State
		}
	}
	change(u)
	link(u)
	raw, _ := json.Marshal(u)
	for _, s := range f.servers {
		s.users.Set(&store.Object{Name: name, Raw: raw})
	}
}

// reply is an HTTP response whose body has been read.
type reply struct {
	code   int
	header http.Header
	body   map[string]any
	text   string
}

func (r reply) str(name string) string {
	s, _ := r.body[name].(string)
	return s
}

func do(t testing.TB, r *http.Request) reply {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	out := reply{code: resp.StatusCode, header: resp.Header, text: string(b)}
	_ = json.Unmarshal(b, &out.body)
	return out
}

func request(t testing.TB, method, address, body string, header map[string]string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	return r
}

func (s *server) post(t testing.TB, form url.Values, header map[string]string) reply {
	t.Helper()
	return do(t, request(t, http.MethodPost, s.URL+"/oauth/token", form.Encode(), header))
}

// console returns the form that the console sends at login.
func consoleLogin(user, pass string) url.Values {
	return url.Values{"grant_type": {"password"}, "username": {user}, "password": {pass}, "encrypt": {"MTE=@abc"},
		"client_id": {"kubesphere"}, "client_secret": {"kubesphere"}}
}

// renewal returns the form that the console sends to refresh.
func renewal(refresh string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {"kubesphere"}, "client_secret": {"kubesphere"}}
}

func (s *server) login(t testing.TB) (access, refresh string) {
	t.Helper()
	r := s.post(t, consoleLogin("alice", password), nil)
	if r.code != http.StatusOK {
		t.Fatalf("%d %s", r.code, r.text)
	}
	return r.str("access_token"), r.str("refresh_token")
}

func (s *server) userinfo(t testing.TB, access string) reply {
	t.Helper()
	return do(t, request(t, http.MethodGet, s.URL+"/oauth/userinfo", "", map[string]string{"Authorization": "Bearer " + access}))
}
