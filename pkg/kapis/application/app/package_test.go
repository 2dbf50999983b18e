package app_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore/file"
	"kapis.dev/ks-apiserver/pkg/chart/charttest"
	"kapis.dev/ks-apiserver/pkg/kapis/application/app"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scope"
	"kapis.dev/ks-apiserver/pkg/kapis/application/scopetest"
	"kapis.dev/ks-apiserver/pkg/request/requesttest"
	"kapis.dev/ks-apiserver/pkg/status"
)

// bucket is a place for large files. Reads wait for let, where it is not nil.
type bucket struct {
	files
	entered chan<- struct{}
	let     <-chan struct{}
}

func (*bucket) MaxSize() int { return file.MaxInBucket }

func (b *bucket) Get(ctx context.Context, name string) ([]byte, error) {
	if b.let != nil {
		b.entered <- struct{}{}
		<-b.let
	}
	return b.files.Get(ctx, name)
}

func withBucket(t *testing.T) (*scopetest.World, *bucket) {
	b := &bucket{files: files{}}
	content := shop(t, "1.0.0")
	a, v := uploaded("shop-draft", "a", "draft", content)
	b.files["shop-draft-1.0.0"] = kept{content: content}
	w := scopetest.New(t, map[string][]map[string]any{"applications": {a}, "applicationversions": {v}},
		func(s *scope.Store, ws *restful.WebService) { app.New(s, b).Routes(ws) })
	w.Users = map[string]scopetest.Rights{"ann": {Workspaces: map[string][]string{"a": {"*"}}}, "bob": {Workspaces: map[string][]string{"a": {"*"}}},
		"new": {Workspaces: map[string][]string{"c": {"*"}}}}
	for i := range 5 {
		w.Users[fmt.Sprint("system:serviceaccount:shop:", i)] = w.Users["ann"]
	}
	return w, b
}

// incompressible returns a text that takes at least half of its length in a chart.
func incompressible(t *testing.T, length int) string {
	t.Helper()
	raw := make([]byte, length/2)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(raw)
}

func TestX36PackagesAreAsLargeAsTheirPlaceTakes(t *testing.T) {
	w, b := withBucket(t)
	chart := func(length int) []byte {
		return charttest.Pack(t, "shop", map[string]string{"Chart.yaml": "name: shop\nversion: 2.0.0\n", "data": incompressible(t, length)})
	}
	large, tooLarge := chart(8<<20), chart(36<<20)
	if len(large) < 4<<20 || len(tooLarge) <= file.MaxInBucket {
		t.Fatal(len(large), len(tooLarge))
	}
	body, header := form(t, large, `{}`)
	w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps?validate=true", body, header)
	w.Expect(http.StatusOK, "new", http.MethodPost, "/workspaces/c/apps", body, header)
	if len(b.files) != 2 {
		t.Errorf("%d files are there, want another one", len(b.files))
	}
	w.Expect(http.StatusOK, "ann", http.MethodPost, "/workspaces/a/apps/shop-draft/versions?validate=true", asJSON(large, ""))
	body, header = form(t, tooLarge, `{}`)
	w.Expect(http.StatusRequestEntityTooLarge, "new", http.MethodPost, "/workspaces/c/apps", body, header)
	w.Expect(http.StatusRequestEntityTooLarge, "new", http.MethodPost, "/workspaces/c/apps", asJSON(tooLarge, ""))
	// What the form has beside the fields that are read counts, too.
	boundary := strings.TrimPrefix(header, "Content-Type: multipart/form-data; boundary=")
	flood := "--" + boundary + "\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n" + strings.Repeat("x", 24<<20) + "\r\n--" + boundary + "--\r\n"
	w.Expect(http.StatusRequestEntityTooLarge, "new", http.MethodPost, "/workspaces/c/apps", flood, header)
	if len(b.files) != 2 {
		t.Errorf("%d files are there", len(b.files))
	}
}

func TestX36AUserHasAFewLargePackagesInMemoryAtOnce(t *testing.T) {
	w, b := withBucket(t)
	const path, ofUser = "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0/package", 4
	entered, let, ended := make(chan struct{}), make(chan struct{}), make(chan int)
	b.entered, b.let = entered, let
	for range ofUser {
		go func() {
			code, _ := w.Send("ann", http.MethodGet, path, "")
			ended <- code
		}()
		<-entered
	}
	w.Expect(http.StatusServiceUnavailable, "ann", http.MethodGet, path, "")
	w.Expect(http.StatusServiceUnavailable, "ann", http.MethodPost, "/workspaces/a/apps", strings.Repeat(" ", 3<<20)+"{}")
	w.Expect(http.StatusBadRequest, "ann", http.MethodPost, "/workspaces/a/apps", "{}") // a small one is read
	go func() {
		code, _ := w.Send("bob", http.MethodGet, path, "")
		ended <- code
	}()
	<-entered
	close(let)
	for range ofUser + 1 {
		if code := <-ended; code != http.StatusOK {
			t.Errorf("a package: %d", code)
		}
	}
	b.let = nil
	if answer := w.Expect(http.StatusOK, "ann", http.MethodGet, path, ""); !strings.Contains(answer, base64.StdEncoding.EncodeToString(shop(t, "1.0.0"))) {
		t.Errorf("%.200s", answer)
	}
}

func TestX36ServiceAccountsOfANamespaceCountAsOneUser(t *testing.T) {
	w, b := withBucket(t)
	const path, ofUser = "/workspaces/a/apps/shop-draft/versions/shop-draft-1.0.0/package", 4
	entered, let, ended := make(chan struct{}), make(chan struct{}), make(chan int)
	b.entered, b.let = entered, let
	download := func(who string) {
		code, _ := w.Send(who, http.MethodGet, path, "")
		ended <- code
	}
	for i := range ofUser {
		go download(fmt.Sprint("system:serviceaccount:shop:", i))
		<-entered
	}
	upload := strings.Repeat(" ", 3<<20) + "{}"
	w.Expect(http.StatusServiceUnavailable, fmt.Sprint("system:serviceaccount:shop:", ofUser), http.MethodPost, "/workspaces/a/apps", upload)
	w.Expect(http.StatusBadRequest, "bob", http.MethodPost, "/workspaces/a/apps", upload) // it is read
	close(let)
	for range ofUser {
		if code := <-ended; code != http.StatusOK {
			t.Errorf("a package: %d", code)
		}
	}
}

func TestX36OnlyPackagesHaveABoundOfTheirOwn(t *testing.T) {
	const root = "/kapis/application.kubesphere.io/v2"
	for path, want := range map[string]bool{
		root + "/apps": true, root + "/workspaces/a/apps/b/versions": true, root + "/workspaces/a/apps/b/versions/c": true,
		root + "/attachments": false, root + "/repos": false, root + "/applications": false, root + "/apps/b/action": false,
		"/kapis/other.example.com/v2/apps": false, "/apis/application.kubesphere.io/v2/apps": false,
	} {
		if app.IsUpload(requesttest.Info(t, "POST", path)) != want {
			t.Errorf("%s: %t, want %t", path, !want, want)
		}
	}
}

// away is a place for files that does not answer.
type away struct{ files }

func (away) Get(context.Context, string) ([]byte, error) {
	return nil, status.Errorf(http.StatusBadGateway, "the files are away")
}

func TestX36PackagesOfRepositoriesDoNotNeedThePlaceOfFiles(t *testing.T) {
	content := shop(t, "1.0.0")
	a, v := uploaded("shop-repo", "a", "active", content)
	mine, uploadedVersion := uploaded("shop-up", "a", "active", content)
	for _, o := range []map[string]any{a, v} {
		o["metadata"].(map[string]any)["labels"].(map[string]any)[v2.LabelRepo] = "museum"
	}
	w := scopetest.New(t, map[string][]map[string]any{"applications": {a, mine}, "applicationversions": {v, uploadedVersion}},
		func(s *scope.Store, ws *restful.WebService) {
			h := app.New(s, away{})
			h.Fetch = func(context.Context, *v2.ApplicationVersion) ([]byte, error) { return content, nil }
			h.Routes(ws)
		})
	w.Users = map[string]scopetest.Rights{"ann": {Workspaces: map[string][]string{"a": {"*"}}}}
	w.Expect(http.StatusOK, "ann", http.MethodGet, "/workspaces/a/apps/shop-repo/versions/shop-repo-1.0.0/package", "")
	w.Expect(http.StatusBadGateway, "ann", http.MethodGet, "/workspaces/a/apps/shop-up/versions/shop-up-1.0.0/package", "")
}
