package agent_test

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/cluster/agent"
	"kapis.dev/ks-apiserver/pkg/cluster/hub"
)

// start starts an agent that reaches the hub at a server, by the clock of this machine.
func (w *world) start(srv *httptest.Server, name, token string) {
	w.t.Helper()
	w.startAt(srv, name, token, time.Now)
}

// startAt is start by another clock.
func (w *world) startAt(srv *httptest.Server, name, token string, now func() time.Time) {
	w.t.Helper()
	at, err := url.Parse(srv.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	a, err := agent.New(agent.Options{Secrets: newSecrets(), Hub: at, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}),
		Token: always(token), UID: "u-" + name, KubernetesVersion: "v1.37.1", Version: "v4.1.3", Now: now, Handler: http.NotFoundHandler()})
	if err != nil {
		w.t.Fatal(err)
	}
	go a.Run(w.t.Context())
}

// F3, F9: a hub and a member whose clocks differ by ten minutes, either way, take each other's certificates, also new ones.
func TestClocksMayDiffer(t *testing.T) {
	for name, differ := range map[string]time.Duration{"HubAhead": 10 * time.Minute, "HubBehind": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			w := newWorldAt(t, time.Now().Add(differ))
			w.start(w.server, "m1", w.cluster("m1", "c-1"))
			w.eventually("linked", func() bool { return w.linked("m1") })
		})
	}
	for name, differs := range map[string]time.Duration{"MemberAhead": 10 * time.Minute, "MemberBehind": -10 * time.Minute, "MemberAWeekAhead": 7 * 24 * time.Hour,
		"MemberAWeekBehind": -7 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.startAt(w.server, "m1", w.cluster("m1", "c-1"), func() time.Time { return time.Now().Add(differs) })
			w.eventually("linked", func() bool { return w.linked("m1") })
			if n := w.joins.Load(); n != 1 {
				t.Errorf("it has asked for %d certificates", n)
			}
		})
	}
}

// F6, F16: whatever answers in the place of the hub, a member does not take it for the hub, sends its token nowhere else, and is linked once the hub
// answers, without a restart.
func TestWhatAnswersInThePlaceOfTheHub(t *testing.T) {
	var elsewhere atomic.Int64
	canary := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer canary.Close()
	for name, answer := range map[string]func(hub http.Handler, w http.ResponseWriter, r *http.Request){
		"AProxyThatStripsUpgrades": func(hub http.Handler, w http.ResponseWriter, r *http.Request) {
			for _, name := range []string{"Upgrade", "Connection", "Sec-Websocket-Key", "Sec-Websocket-Version"} {
				r.Header.Del(name)
			}
			hub.ServeHTTP(w, r)
		},
		"401": func(_ http.Handler, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"500": func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
		},
		"HTML": func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html>welcome</html>")
		},
		"ARedirect": func(_ http.Handler, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, canary.URL+r.URL.Path, http.StatusTemporaryRedirect)
		},
		"Endless": func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for text := strings.Repeat(" ", 32<<10); ; {
				if _, err := io.WriteString(w, text); err != nil {
					return
				}
			}
		},
		"AnotherHubsAnswer": func(_ http.Handler, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"uid":"c-9","certificate":"x","ca":"y"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var (
				mu    sync.Mutex
				asked int
				well  bool
			)
			h := hub.NewHandler(t.Context(), w.hub)
			srv := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked++
				now := well
				mu.Unlock()
				if now {
					h.ServeHTTP(out, r)
					return
				}
				answer(h, out, r)
			}))
			defer srv.Close()
			defer srv.CloseClientConnections()
			w.start(srv, "m1", w.cluster("m1", "c-1"))
			w.eventually("it tries again", func() bool { mu.Lock(); defer mu.Unlock(); return asked >= 3 })
			if w.linked("m1") {
				t.Error("it is linked")
			}
			w.feed("m1") // it may have joined, where only the link fails
			mu.Lock()
			well = true
			mu.Unlock()
			w.eventually("linked", func() bool { return w.linked("m1") })
		})
	}
	if n := elsewhere.Load(); n > 0 {
		t.Errorf("a redirect was followed %d times", n)
	}
}

// F6: a replica of the hub that has just started, and knows no Cluster yet, costs a member its link and not its identity: the token counts once.
func TestAHubThatKnowsNothingYet(t *testing.T) {
	w := newWorld(t)
	_, stop := w.member("u-m1", always(w.cluster("m1", "c-1")), newSecrets())
	defer stop()
	w.eventually("linked", func() bool { return w.linked("m1") })
	w.hub.Members.Delete("", "m1") // as a replica that was not told yet
	at := w.server.URL + "/fleet/links/c-1"
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a Cluster that there is, and that is not known yet, is answered %d", resp.StatusCode)
	}
	w.feed("m1")
	w.eventually("linked again", func() bool { return w.linked("m1") })
}

// F6: a member that was told by mistake that its Cluster is gone, as by a hub of an old copy, tries again what it was.
func TestAHubThatSaysByMistakeThatAMemberIsGone(t *testing.T) {
	w := newWorld(t)
	_, stop := w.member("u-m1", always(w.cluster("m1", "c-1")), newSecrets())
	defer stop()
	w.eventually("linked", func() bool { return w.linked("m1") })
	kept, err := w.objects.Resource(clusters).Get(t.Context(), "m1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.objects.Resource(clusters).Delete(t.Context(), "m1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.feed("m1")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/fleet/links/c-1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _ = resp.Body.Close(); resp.StatusCode != http.StatusGone {
		t.Errorf("a Cluster that there is not is answered %d", resp.StatusCode)
	}
	// The member dials meanwhile, and asks for a new identity with a token that was used.
	w.eventually("it joins in vain", func() bool { return w.joins.Load() >= 2 })
	if _, err := w.objects.Resource(clusters).Create(t.Context(), kept, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.feed("m1")
	w.eventually("linked again", func() bool { return w.linked("m1") })
}
