package remote

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"

	restful "github.com/emicklei/go-restful/v3"
)

func TestTooManyQuestionsAreRefused(t *testing.T) {
	m := New(Options{})
	for range maxAsked {
		m.asked <- struct{}{}
	}
	const root = "/kapis/resources.kubesphere.io/v1alpha3"
	ws := new(restful.WebService)
	ws.Path(root).Produces(restful.MIME_JSON)
	m.MountV1alpha3(ws)
	c := kapistest.Container(ws)
	path := root + "/namespaces/a/imageconfig?image=A" // refused before anything is dialled
	rec := kapistest.Serve(t, c, http.MethodGet, path)
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") == "" {
		t.Errorf("%d %v %s", rec.Code, rec.Header(), rec.Body)
	}
	<-m.asked
	rec = kapistest.Serve(t, c, http.MethodGet, path)
	if rec.Code == http.StatusTooManyRequests || len(m.asked) != maxAsked-1 {
		t.Errorf("with room for one: %d, %d still there", rec.Code, len(m.asked))
	}
}
