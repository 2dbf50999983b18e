package plane

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestNodesAreUsable(t *testing.T) {
	const (
		good    = `{"metadata":{"name":"n"},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
		tainted = `{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready"}]},"status":{"conditions":[{"type":"Ready","status":"True"}]}}`
		unready = `{"status":{"conditions":[{"type":"Ready","status":"Unknown"},{"type":"DiskPressure","status":"True"}]}}`
	)
	for claim, tc := range map[string]struct {
		items []string
		err   string
	}{
		"AllReady":                {[]string{good, good, good}, ""},
		"MoreAreFine":             {[]string{good, unready, good, good}, ""},
		"NoneYet":                 {nil, "0 of 3 nodes are ready"},
		"ATaintKeepsPodsAway":     {[]string{good, good, tainted}, "2 of 3 nodes are ready"},
		"OtherConditionsAreOther": {[]string{good, good, unready}, "2 of 3 nodes are ready"},
	} {
		t.Run(claim, func(t *testing.T) {
			var l nodeList
			if err := json.Unmarshal([]byte(`{"items":[`+strings.Join(tc.items, ",")+`]}`), &l); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := l.usable(); err != nil {
				got = err.Error()
			}
			if got != tc.err {
				t.Errorf("got %q, want %q", got, tc.err)
			}
		})
	}
}

func TestEnsureNodes(t *testing.T) {
	for claim, tc := range map[string]struct {
		nodes, leases int
		patches       int
		fails         bool
	}{
		"NewNodesAreCreated":       {nodes: 201, leases: 404},
		"OldNodesLearnTheNewPort":  {nodes: 409, leases: 200, patches: nodeCount},
		"ARefusalIsAnError":        {nodes: 403, leases: 200, fails: true},
		"ALeaseThatStaysIsAnError": {nodes: 201, leases: 500, fails: true},
	} {
		t.Run(claim, func(t *testing.T) {
			var patches int
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.Method {
				case http.MethodPost:
					w.WriteHeader(tc.nodes)
				case http.MethodDelete:
					w.WriteHeader(tc.leases)
				case http.MethodPatch:
					patches++
					if body, _ := io.ReadAll(r.Body); !strings.Contains(string(body), `"Port":4711`) {
						t.Errorf("patched with %s", body)
					}
				}
			}))
			defer server.Close()
			err := ensureNodes(t.Context(), &client{http: server.Client(), server: server.URL}, 4711)
			if (err != nil) != tc.fails || patches != tc.patches {
				t.Errorf("got %v after %d patches", err, patches)
			}
		})
	}
}

func TestClientErrorsSayWhatFails(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, strings.Repeat("[+]ok\n", 1000)+"[-]etcd failed\n")
	}))
	defer server.Close()
	err := (&client{http: server.Client(), server: server.URL}).ready("/readyz")(t.Context())
	if code(err) != 500 || !strings.Contains(err.Error(), "[-]etcd failed") || len(err.Error()) > 500 || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}
