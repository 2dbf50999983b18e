package resource

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"kapis.dev/ks-apiserver/pkg/redaction"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

type readerFunc func(path string) ([]byte, error)

func (f readerFunc) Get(_ context.Context, path string) (redaction.Raw, error) {
	text, err := f(path)
	return redaction.Received(string(text)), err
}

// shownText is the text of an object of a kind without hidden fields.
func shownText(t testing.TB, text string) redaction.Shown {
	t.Helper()
	shown, err := redaction.Received(text).Shown(schema.GroupResource{Resource: "pods"})
	if err != nil {
		t.Fatal(err)
	}
	return shown
}

func TestCompleteShowsWhatTheCacheLeavesOutAndNothingThatIsHidden(t *testing.T) {
	w := newCluster(t, map[string][]string{
		"/apis/iam.kubesphere.io/v1beta1/users": {
			`{"kind":"User","apiVersion":"iam.kubesphere.io/v1beta1","metadata":{"name":"ann","uid":"u","resourceVersion":"1"},"spec":{"email":"a@b.c"}}`,
		},
	}, Options{})
	k := w.resolve(t, "iam.kubesphere.io", "users")
	p, err := w.List(t.Context(), k, plan.Scope{}, parsed(t, "limit=10&managedFields=true"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := w.Complete(t.Context(), p, plan.Scope{}, readerFunc(func(path string) ([]byte, error) {
		if path != "/apis/iam.kubesphere.io/v1beta1/users/ann" {
			t.Errorf("asked for %s", path)
		}
		return []byte(`{"kind":"User","metadata":{"name":"ann","resourceVersion":"2","managedFields":[{"manager":"kubectl"}],
			"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"password\":\"s3cret\"}}"}},"spec":{"password":"s3cret","email":"a@b.c"}}`), nil
	}))
	if err != nil || whole.Total != 1 {
		t.Fatal(whole, err)
	}
	plain, complete := respond(p.Items(), http.MethodGet), respond(whole.Items(), http.MethodGet)
	if body := complete.Body.String(); !strings.Contains(body, "managedFields") || strings.Contains(body, "s3cret") {
		t.Errorf("shows %s", body)
	}
	if plain.Header().Get("ETag") == complete.Header().Get("ETag") || strings.Contains(plain.Body.String(), "managedFields") {
		t.Error("the two answers are one")
	}

	gone := apierrors.NewNotFound(schema.GroupResource{Resource: "users"}, "ann")
	if same, err := w.Complete(t.Context(), p, plan.Scope{}, readerFunc(func(string) ([]byte, error) { return nil, gone })); err != nil ||
		itemOf(same, 0) != itemOf(p, 0) {
		t.Errorf("an object that is gone: %v", err)
	}
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "users"}, "ann", errors.New("no"))
	if _, err := w.Complete(t.Context(), p, plan.Scope{}, readerFunc(func(string) ([]byte, error) { return nil, refused })); !apierrors.IsForbidden(err) {
		t.Errorf("who may not read: %v", err)
	}
}

// U8: objects that are read live count before all of a page have been read, and are read a few at once, of one user and in all.
func TestObjectsThatAreReadLiveAreBounded(t *testing.T) {
	w := newWorld(t, map[string][]string{podsPath: manyPods(100)}, Options{MaxBytes: 8 << 20, MaxInFlight: 64 << 20})
	p := w.page(t, w.resolve(t, "", "pods"), "limit=100")
	idle := room(w.pages.Responses())
	large, reads := []byte(`{"kind":"Pod","data":"`+strings.Repeat("x", 2<<20)+`"}`), atomic.Int64{}
	_, err := w.Complete(as(t, "ann"), p, plan.Scope{}, readerFunc(func(string) ([]byte, error) {
		reads.Add(1)
		return large, nil
	}))
	if code(err) != http.StatusRequestEntityTooLarge || reads.Load() > 20 || room(w.pages.Responses()) != idle {
		t.Errorf("%d objects of 2 MiB are read of a page of at most 8: %v, room for %d answers, not %d", reads.Load(), err,
			room(w.pages.Responses()), idle)
	}

	begun, goOn, ended := make(chan string), make(chan struct{}), make(chan error)
	var ofAnn, most atomic.Int64
	slow := contextReader(func(ctx context.Context) {
		who := request.UserFrom(ctx).GetName()
		if who == "ann" {
			most.Store(max(most.Load(), ofAnn.Add(1)))
			defer ofAnn.Add(-1)
		}
		begun <- who
		<-goOn
	})
	complete := func(who string) {
		go func() {
			_, err := w.Complete(as(t, who), p, plan.Scope{}, slow)
			ended <- err
		}()
	}
	for range 3 {
		complete("ann")
	}
	for range 8 {
		<-begun
	}
	complete("bob")
	if who := <-begun; who != "bob" {
		t.Errorf("%s reads more than 8 at once", who)
	}
	close(goOn)
	for n := 0; n < 4; {
		select {
		case <-begun:
		case err := <-ended:
			if n++; err != nil {
				t.Error(err)
			}
		}
	}
	if most.Load() > 8 {
		t.Errorf("%d objects are read at once for one user", most.Load())
	}
}

// contextReader is told of each read, and answers with an empty object.
type contextReader func(ctx context.Context)

func (f contextReader) Get(ctx context.Context, _ string) (redaction.Raw, error) {
	f(ctx)
	return redaction.Received("{}"), nil
}
