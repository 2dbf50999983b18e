package remote

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"

	restful "github.com/emicklei/go-restful/v3"
)

const root = "/kapis/resources.kubesphere.io/v1alpha3"

func routes(m *Handler) *restful.Container {
	ws := new(restful.WebService)
	ws.Path(root).Produces(restful.MIME_JSON)
	m.MountV1alpha3(ws)
	return kapistest.Container(ws)
}

func TestASearchNeedsNoText(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"num_results":1,"results":[{"name":"of-`+r.URL.Query().Get("q")+`"}]}`)
	}))
	defer hub.Close()
	m := New(Options{AllowLoopback: true, Hub: hub.URL})
	defer m.CloseIdleConnections()
	for query, want := range map[string]string{
		"": `{"total":1,"entries":["of-"]}`, "?q=&secret=": `{"total":1,"entries":["of-"]}`, "?q=web": `{"total":1,"entries":["of-web"]}`,
	} {
		if rec := kapistest.Serve(t, routes(m), http.MethodGet, root+"/namespaces/a/images"+query); rec.Code != http.StatusOK || rec.Body.String() != want {
			t.Errorf("%q: %d %s, want %s", query, rec.Code, rec.Body, want)
		}
	}
}

func TestTooManyQuestionsAreRefused(t *testing.T) {
	m := New(Options{})
	for range maxAsked {
		m.asked <- struct{}{}
	}
	c := routes(m)
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
