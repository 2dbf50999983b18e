package logins

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	restful "github.com/emicklei/go-restful/v3"
	"golang.org/x/crypto/bcrypt"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	iamapi "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/api/session/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/apikey"
	"kapis.dev/ks-apiserver/pkg/iam/factor"
	iamlogin "kapis.dev/ks-apiserver/pkg/iam/login"
	iampassword "kapis.dev/ks-apiserver/pkg/iam/password"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/oauth"
	oauthclient "kapis.dev/ks-apiserver/pkg/oauth/client"
	"kapis.dev/ks-apiserver/pkg/store"
	"kapis.dev/ks-apiserver/pkg/token"
	"kapis.dev/ks-apiserver/tools/logins/chromium"
)

const (
	password = "P@88w0rd"
	newPass  = "N3wP@ssword"
)

// site is the real server over https, and a client of it at another origin.
type site struct {
	*httptest.Server
	client  *client
	users   *iam.UserIndex
	api     *sessions
	factors *factor.Store
}

// objects stores second factors and API keys in a map.
type objects[T metav1.Object] struct {
	mu   sync.Mutex
	all  map[string]T
	last int
}

func (o *objects[T]) put(in T) (T, error) {
	o.last++
	in.SetResourceVersion(strconv.Itoa(o.last))
	if in.GetUID() == "" {
		in.SetUID(types.UID("uid-" + in.GetName()))
	}
	if o.all == nil {
		o.all = map[string]T{}
	}
	o.all[in.GetName()] = in
	return in, nil
}

func (o *objects[T]) Create(_ context.Context, in T) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put(in)
}

func (o *objects[T]) Get(_ context.Context, name string) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	out, ok := o.all[name]
	if !ok {
		return out, apierrors.NewNotFound(v1alpha1.Resource("objects"), name)
	}
	return out, nil
}

func (o *objects[T]) Update(_ context.Context, in T) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put(in)
}

func (o *objects[T]) Delete(_ context.Context, name string, _ metav1.Preconditions) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.all, name)
	return nil
}

// sessions stores sessions in a map.
type sessions struct {
	mu      sync.Mutex
	objects map[string]*v1alpha1.Session
	sink    store.Sink
	version int
}

func (s *sessions) put(o *v1alpha1.Session) *v1alpha1.Session {
	s.version++
	o = o.DeepCopy()
	o.ResourceVersion = fmt.Sprint(s.version)
	o.Generation++
	s.objects[o.Name] = o
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	s.sink.Set(&store.Object{Name: o.Name, Raw: raw})
	return o.DeepCopy()
}

func (s *sessions) Create(_ context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[o.Name] != nil {
		return nil, apierrors.NewAlreadyExists(v1alpha1.Resource("sessions"), o.Name)
	}
	o = o.DeepCopy()
	o.UID = types.UID("uid-" + o.Name)
	return s.put(o), nil
}

func (s *sessions) Get(_ context.Context, name string) (*v1alpha1.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[name] == nil {
		return nil, apierrors.NewNotFound(v1alpha1.Resource("sessions"), name)
	}
	return s.objects[name].DeepCopy(), nil
}

func (s *sessions) Update(_ context.Context, o *v1alpha1.Session) (*v1alpha1.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.objects[o.Name]
	if old == nil {
		return nil, apierrors.NewNotFound(v1alpha1.Resource("sessions"), o.Name)
	}
	if old.ResourceVersion != o.ResourceVersion {
		return nil, apierrors.NewConflict(v1alpha1.Resource("sessions"), o.Name, nil)
	}
	return s.put(o), nil
}

func (s *sessions) Delete(_ context.Context, name string, _ types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, name)
	s.sink.Delete("", name)
	return nil
}

// client is an application that users log in to.
type client struct {
	*httptest.Server
	// landed receives the query with which each user returns.
	landed chan string
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{landed: make(chan string, 16)}
	c.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cb" {
			c.landed <- r.URL.RawQuery
			// Clients may send people on to another origin, which Chromium holds to the policy of our form as well.
			http.Redirect(w, r, strings.Replace(c.URL, "127.0.0.1", "localhost", 1)+"/home", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><html lang="en"><title>client</title><h1 id="home">Welcome</h1>%s`, r.URL.Query().Get("html"))
	}))
	t.Cleanup(c.Close)
	return c
}

// serve serves over https, by a name: passkeys are bound to names, and not to addresses.
func serve(t *testing.T, h http.Handler) *site {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: listener, Config: &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}}
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	s.URL = "https://localhost:" + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	return &site{Server: s}
}

func newSite(t *testing.T) *site {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	handler := restful.NewContainer()
	w := serve(t, handler)
	issuer := w.URL
	keys, err := token.Generate(time.Now().Add(-time.Minute))
	must(err)
	w.client, w.users, w.api = newClient(t), iam.NewUserIndex(), &sessions{objects: map[string]*v1alpha1.Session{}}
	life := session.Lifetime{MaxAge: 2 * time.Hour, Inactivity: time.Hour}
	clients, err := oauthclient.NewRegistry(fake.NewClientset().CoreV1().Secrets("x"), []oauthclient.Client{
		{Name: "Harbor", Secret: "a-secret-of-harbor", RedirectURIs: []string{w.client.URL + "/cb"}, PostLogoutRedirectURIs: []string{w.client.URL + "/home"}},
		{Name: "Argo CD", Secret: "a-secret-of-argo", GrantMethod: "prompt", RedirectURIs: []string{w.client.URL + "/cb"}},
		{Name: "kubectl"},
	}, life)
	must(err)
	all, err := session.New(session.Options{API: w.api, Users: w.users, Keys: keys, Lifetime: clients.Lifetime,
		ClientCredential: clients.Credential, Skew: 30 * time.Second, Now: time.Now})
	must(err)
	w.api.sink = all
	verifier, err := token.NewVerifier(token.Rules{Keys: keys, Issuer: issuer, Audience: "kapis", Now: time.Now, CacheSize: 64})
	must(err)
	passwords, err := iampassword.New(w.users, nil)
	must(err)
	w.factors = &factor.Store{API: &objects[*v1alpha1.Factor]{}, Users: w.users, Keys: keys, Name: "KubeSphere", Now: time.Now}
	w.factors.Passkeys, err = factor.NewPasskeys(issuer, "KubeSphere")
	must(err)
	o := oauth.Options{
		Factors:        w.factors,
		APIKeys:        &apikey.Store{API: &objects[*v1alpha1.APIKey]{}, Users: w.users, MaxAge: 366 * 24 * time.Hour, Now: time.Now},
		Issuer:         issuer,
		Tokens:         &token.Issuer{Keys: keys, URL: issuer, Audience: "kapis", Now: time.Now},
		Verifier:       verifier,
		Keys:           keys,
		Clients:        clients,
		Sessions:       all,
		Authenticator:  &iamlogin.Authenticator{Passwords: passwords, Factors: w.factors},
		Now:            time.Now,
		ChangePassword: w.changePassword,
	}
	server, err := oauth.New(o)
	must(err)
	for _, ws := range server.WebServices() {
		handler.Add(ws)
	}
	w.user("alice", password, nil)
	return w
}

// patience bounds what a test does in the browser.
const patience = 10 * time.Minute

// open starts a browser that knows the site.
func (w *site) open(t *testing.T, win chromium.Window) *chromium.Browser {
	t.Helper()
	return chromium.Open(t, win, patience, w.Certificate())
}

// user creates a User, or another version of it.
func (w *site) user(name, pass string, edit func(*iamapi.User)) {
	hash, err := bcrypt.GenerateFromPassword([]byte(pass), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	u := &iamapi.User{}
	u.Name, u.UID = name, types.UID("uid-"+name)
	u.Spec = iamapi.UserSpec{Email: name + "@example.com", DisplayName: "Alice Liddell", Password: string(hash)}
	u.Status.State = iamapi.UserActive
	if edit != nil {
		edit(u)
	}
	raw, err := json.Marshal(u)
	if err != nil {
		panic(err)
	}
	w.users.Set(&store.Object{Name: name, Raw: raw})
}

func (w *site) changePassword(_ context.Context, c iamlogin.PasswordChange) error {
	if strings.ToLower(c.New) == c.New {
		return iam.ErrPolicy
	}
	w.user(c.User.Name, c.New, nil)
	return nil
}

// asks is the address of an authorization request of a client.
func (w *site) asks(name string) string {
	return w.URL + "/oauth/authorize?response_type=code&scope=openid+profile+email&state=s&client_id=" + strings.ReplaceAll(name, " ", "+")
}
