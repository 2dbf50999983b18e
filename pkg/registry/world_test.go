package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// canary is the right password of every registry here. It must not show in an error.
const canary = "canary-password"

var ann = Account{"ann", canary}

// world is a registry in memory, with an account or without.
type world struct {
	*httptest.Server
	host string

	mu       sync.Mutex
	requests []*http.Request // as they came, of Docker's and Harbor's API alike
}

// newWorld starts a registry: of "basic", "token" or "open" access, behind more where that is not nil.
func newWorld(t *testing.T, access string, more http.Handler) *world {
	t.Helper()
	w := &world{}
	images := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r)
		w.mu.Unlock()
		switch {
		case r.URL.Path == "/token":
			w.issue(rw, r)
		case !w.admits(access, r):
			challenge := `Basic realm="test"`
			if access == "token" {
				challenge = fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, w.host)
			}
			rw.Header().Set("WWW-Authenticate", challenge)
			rw.WriteHeader(http.StatusUnauthorized)
		case more != nil:
			more.ServeHTTP(rw, r)
		default:
			images.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(w.Close)
	w.host = strings.TrimPrefix(w.URL, "http://")
	return w
}

func (w *world) admits(access string, r *http.Request) bool {
	user, password, _ := r.BasicAuth()
	switch access {
	case "basic":
		return user == ann.Username && password == ann.Password
	case "token":
		return r.Header.Get("Authorization") == "Bearer of-ann"
	}
	return true
}

func (w *world) issue(rw http.ResponseWriter, r *http.Request) {
	if !w.admits("basic", r) {
		rw.WriteHeader(http.StatusUnauthorized)
		return
	}
	_, _ = io.WriteString(rw, `{"token":"of-ann"}`)
}

// seen returns the requests so far.
func (w *world) seen() []*http.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

// push puts an image there, and returns it.
func (w *world) push(t *testing.T, repository, tag string) v1.Image {
	t.Helper()
	img, err := random.Image(16, 1)
	if err == nil {
		img, err = mutate.Config(img, v1.Config{Cmd: []string{"run", repository}, Env: []string{"A=b"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, repository+":"+tag, func(ref name.Reference, o ...remote.Option) error { return remote.Write(ref, img, o...) })
	return img
}

// pushIndex puts an image for two platforms there.
func (w *world) pushIndex(t *testing.T, repository, tag string) {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, arch := range []string{"arm64", "amd64"} {
		img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Architecture: arch, OS: "linux"})
		if err != nil {
			t.Fatal(err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}}})
	}
	w.write(t, repository+":"+tag, func(ref name.Reference, o ...remote.Option) error { return remote.WriteIndex(ref, index, o...) })
}

func (w *world) write(t *testing.T, image string, put func(name.Reference, ...remote.Option) error) {
	t.Helper()
	ref, err := name.ParseReference(w.host+"/"+image, name.Insecure)
	if err == nil {
		err = put(ref, remote.WithContext(context.Background()), remote.WithAuth(&authn.Basic{Username: ann.Username, Password: ann.Password}))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// creds are the account for the registry.
func (w *world) creds(who Account) *Credentials {
	return &Credentials{Insecure: true, accounts: map[string]Account{w.host: who}}
}

// local is a client that may reach the registries here.
func local(t *testing.T) *Client { return reaching(t, Options{AllowLoopback: true}) }

func reaching(t *testing.T, o Options) *Client {
	c := New(o)
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// is checks an error: its code, words in it, and that it tells no secret.
func is(t *testing.T, err error, code int, words string) {
	t.Helper()
	if code == 0 {
		if err != nil {
			t.Errorf("failed: %v", err)
		}
		return
	}
	var s apierrors.APIStatus
	if err == nil {
		t.Errorf("no error, want %d %s", code, words)
		return
	}
	s, ok := err.(apierrors.APIStatus)
	if !ok || int(s.Status().Code) != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want %d %s", err, code, words)
	}
	shown, _ := json.Marshal(s)
	for _, secret := range []string{canary, "of-ann", "internal-answer"} {
		if strings.Contains(err.Error()+string(shown), secret) {
			t.Errorf("the error shows %s: %v", secret, err)
		}
	}
}
