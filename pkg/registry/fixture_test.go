package registry

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"kapis.dev/ks-apiserver/pkg/egress/egresstest"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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

// newWorld starts a registry: of "basic", "token" or "open" access, wrapped by more where that is not nil.
func newWorld(t *testing.T, access string, more http.Handler) *world {
	t.Helper()
	w := &world{}
	if more == nil {
		more = ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	}
	switch access {
	case "basic":
		more = egresstest.BasicAuth(ann.Username, ann.Password, more)
	case "token":
		more = w.bearer(more)
	}
	token := egresstest.BasicAuth(ann.Username, ann.Password, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(rw, `{"token":"of-ann"}`)
	}))
	w.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.requests = append(w.requests, r)
		w.mu.Unlock()
		if r.URL.Path == "/token" {
			token.ServeHTTP(rw, r)
			return
		}
		more.ServeHTTP(rw, r)
	}))
	t.Cleanup(w.Close)
	w.host = strings.TrimPrefix(w.URL, "http://")
	return w
}

// bearer passes requests with a token of the registry's own token server on to next.
func (w *world) bearer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer of-ann" {
			rw.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="test"`, w.host))
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(rw, r)
	})
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

// pushIndex puts an image for several platforms there, such as linux/arm64; one without a name has none.
func (w *world) pushIndex(t *testing.T, repository, tag string, platforms ...string) {
	t.Helper()
	var index v1.ImageIndex = empty.Index
	for _, p := range platforms {
		img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{Author: p})
		if err != nil {
			t.Fatal(err)
		}
		add := mutate.IndexAddendum{Add: img}
		if p != "" {
			add.Platform = &v1.Platform{}
			add.Platform.OS, add.Platform.Architecture, _ = strings.Cut(p, "/")
		}
		index = mutate.AppendManifests(index, add)
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

// is checks an error: its code, words in it, and that it shows no secret.
func is(t *testing.T, err error, code int, words string) {
	t.Helper()
	egresstest.CheckError(t, err, code, words, canary, "of-ann", "internal-answer")
}
