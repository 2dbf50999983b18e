package controllermanager

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"k8s.io/client-go/kubernetes/fake"
	ctrlwebhook "sigs.k8s.io/controller-runtime/pkg/webhook"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
)

// registered are the handlers of a server that listens nowhere.
type registered struct {
	ctrlwebhook.Server
	at map[string]http.Handler
}

func (r registered) Register(path string, hook http.Handler) { r.at[path] = hook }

// A flood at all webhooks together leaves somebody else's write a place; only those of quotas answer any number.
func TestEveryWebhookAnswersInTurn(t *testing.T) { // O48
	served := (&webhooks{client: fake.NewClientset()}).handlers(nowhere{})
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		var working, ofQuotas atomic.Int64
		waits := map[string]webhook.Handler{}
		for path := range served {
			count := &working
			if path == resourcequota.Path {
				count = &ofQuotas
			}
			waits[path] = webhook.HandlerFunc(func(context.Context, webhook.Request) webhook.Response {
				count.Add(1)
				<-end
				return webhook.Allowed("")
			})
		}
		h := &webhooks{server: registered{at: map[string]http.Handler{}}}
		h.register(waits)
		at := h.server.(registered).at
		if len(at) != len(served) || len(at) < 10 {
			t.Fatalf("%d of %d webhooks are served", len(at), len(served))
		}
		send := func(by, path string) {
			body := fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","userInfo":{"username":%q}}}`, by)
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			go at[path].ServeHTTP(httptest.NewRecorder(), r)
		}
		for path := range at {
			for range 6 {
				send("eve", path)
			}
		}
		synctest.Wait()
		if working.Load() != 4 || ofQuotas.Load() != 6 {
			t.Errorf("of one user %d writes are worked on, and %d that count against quotas", working.Load(), ofQuotas.Load())
		}
		send("ann", pathGuard)
		synctest.Wait()
		if working.Load() != 5 {
			t.Error("somebody else's write waits")
		}
		close(end)
		synctest.Wait()
	})
}
