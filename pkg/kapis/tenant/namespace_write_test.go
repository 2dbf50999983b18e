package tenant_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

const (
	groupMove    = "kapis:platform:move"
	maxAssigned  = 100 // namespaces that one request moves
	resultFailed = "Failed"
)

func namespaceOf(name, labels string) string {
	return fmt.Sprintf(
		`{"cluster":"host","apiVersion":"v1","kind":"Namespace","metadata":{"labels":{%s},"name":%q,"annotations":{"kubesphere.io/creator":"mallory"}}}`,
		labels,
		name,
	)
}

func label(workspace string) string { return `"kubesphere.io/workspace":"` + workspace + `"` }

func TestNamespacesAreCreatedInTheirWorkspace(t *testing.T) {
	w := newWorld(t)
	w.allow("admin", "* * platform")
	w.allow("maker", "create namespaces a", "create namespaces ending")
	for _, c := range []struct {
		name, who, workspace, body string
		code                       int
		has                        string
	}{
		{"AsTheConsoleDoes", "maker", "a", namespaceOf("n1", label("a")+`,"kubesphere.io/managed":"true"`), 200, label("a")},
		{"TheLabelIsStamped", "maker", "a", namespaceOf("n2", ""), 200, label("a")},
		{"TheCreatorIsTheCaller", "maker", "a", namespaceOf("n3", ""), 200, `"kubesphere.io/creator":"maker"`}, // S6
		{"NotIntoAnotherByItsLabel", "maker", "a", namespaceOf("x1", label("b")), 400, "same"},                 // S7
		{"NotWithAnotherPodSecurity", "maker", "a", namespaceOf("x2", `"pod-security.kubernetes.io/enforce":"privileged"`), 403, "pod-security"},
		{"NotOfTheSystem", "maker", "a", namespaceOf("kube-x", ""), 403, "system"},
		{"NotOfAnExtension", "maker", "a", namespaceOf("extension-shop", `"kubesphere.io/extension-ref":"shop"`), 403, "system"},
		{"NotWhereSearchListsLookForServices", "maker", "a", namespaceOf("svc", ""), 403, "system"},
		{"NotElsewhere", "maker", "b", namespaceOf("x3", ""), 403, ""},
		{"NotInAWorkspaceThatIsEnding", "maker", "ending", namespaceOf("x4", ""), 409, "deleted"},
		{"NotInNone", "admin", "none", namespaceOf("x5", ""), 404, "none"},
		{"NotTwice", "admin", "a", namespaceOf("a1", ""), 409, ""},
		{"TheAdministratorSetsPodSecurity", "admin", "a", namespaceOf("n4", `"pod-security.kubernetes.io/enforce":"restricted"`), 200, "restricted"},
		{"TheAdministratorTakesAnyName", "admin", "a", namespaceOf("extension-shop", ""), 200, "extension-shop"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if body := w.must(c.code, c.who, http.MethodPost, "/workspaces/"+c.workspace+"/namespaces", c.body); !strings.Contains(body, c.has) {
				t.Errorf("%s", body)
			}
		})
	}
	if sent := w.kube.sent[0]; sent != "POST /api/v1/namespaces as kapis:a" {
		t.Errorf("sent %s", sent)
	}
}

// S7, S8: a namespace of a workspace is written in it, and no write takes it out.
func TestNamespacesStayInTheirWorkspace(t *testing.T) {
	w := newWorld(t)
	w.allow("owner", "* namespaces a")
	for _, c := range []struct {
		method, path, body, mediaType string
		code                          int
	}{
		{"PATCH", "/a1", `{"metadata":{"labels":{"n":"1"}}}`, typeMergePatch, 200},
		{"PATCH", "/a1", `[{"op":"add","path":"/metadata/annotations","value":{"n":"1"}}]`, typeMergePatch, 200},
		{"PUT", "/a1", namespaceOf("a1", ""), "application/json", 200},
		{"PATCH", "/a1", `{"metadata":{"labels":{` + label("b") + `}}}`, typeMergePatch, 400},
		{"PATCH", "/a1", `{"metadata":{"labels":{"kubesphere.io/workspace":null}}}`, typeMergePatch, 400},
		{"PATCH", "/a1", `{"metadata":{"labels":null}}`, typeMergePatch, 400},
		{"PATCH", "/a1", `[{"op":"remove","path":"/metadata/labels"}]`, typeMergePatch, 400},
		{"PATCH", "/a1", `[{"op":"replace","path":"/metadata/labels/kubesphere.io~1workspace","value":"b"}]`, typeJSONPatch, 400},
		{"PATCH", "/a1", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`, typeMergePatch, 403},
		{"PUT", "/a1", namespaceOf("a1", label("b")), "application/json", 400},
		{"PUT", "/a1", namespaceOf("a2", ""), "application/json", 400},
		{"PUT", "/a1", namespaceOf("a1", `"pod-security.kubernetes.io/warn":"x"`), "application/json", 403},
		{"PATCH", "/b1", `{"metadata":{"labels":{"n":"1"}}}`, typeMergePatch, 403},
		{"DELETE", "/held", ``, "application/json", 403},
		{"DELETE", "/a2", `{}`, "application/json", 200},
		{"DELETE", "/a2", ``, "application/json", 403}, // in no workspace any more
	} {
		before := len(w.kube.sent)
		w.must(c.code, "owner", c.method, "/workspaces/a/namespaces"+c.path, c.body, "Content-Type", c.mediaType)
		if sent := w.kube.sent[before:]; len(sent) > 0 != (c.code == 200) {
			t.Errorf("%s %s: sent %v", c.method, c.body, sent)
		}
		if c.path == "/a1" && w.kube.workspaceOf("a1") != "a" {
			t.Fatalf("%s %s: a1 is in %q", c.method, c.body, w.kube.workspaceOf("a1"))
		}
	}
	w.allow("admin", "* * platform")
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete} {
		w.must(
			http.StatusNotFound,
			"admin",
			method,
			"/workspaces/b/namespaces/a1",
			map[bool]string{true: "{}", false: namespaceOf("a1", "")}[method != http.MethodPut],
		)
	}
	// Nor does a version reveal that it exists elsewhere.
	w.must(http.StatusNotFound, "admin", http.MethodPatch, "/workspaces/b/namespaces/a1", `{"metadata":{"resourceVersion":"nonesuch"}}`)
	w.must(http.StatusNotFound, "admin", http.MethodPut, "/workspaces/b/namespaces/a1",
		strings.Replace(namespaceOf("a1", ""), `"name":"a1"`, `"name":"a1","resourceVersion":"nonesuch"`, 1))
}

// U51, S7: namespaces are moved in bulk, each by a right in the old workspace and a right in the new one.
func TestNamespacesAreMovedWithRightsOnBothSides(t *testing.T) {
	w := newWorld(t)
	w.allow("admin", "* * platform")
	w.allow("both", "create namespaces b", "update namespaces a", "delete namespaces a")
	w.allow("taker", "create namespaces b", "update namespaces a")
	w.allow("keeper", "create namespaces b", "delete namespaces a")
	w.allow("giver", "update namespaces a", "delete namespaces a")
	for _, c := range []struct {
		name, who, to string
		namespaces    []string
		want          string
	}{
		{"WhoMayNotTakeItOut", "taker", "b", []string{"a1"}, "a1 Failed 403"},
		{"WhoMayNotChangeIt", "keeper", "b", []string{"a1"}, "a1 Failed 403"},
		{"EachByItself", "both", "b", []string{"a1", "none", "b1", "free", "held", "kubesphere-x"},
			"a1 Moved 0, none Failed 403, b1 Unchanged 0, free Failed 403, held Failed 403, kubesphere-x Failed 403"},
		{"NotBackAgain", "both", "b", []string{"a2"}, "a2 Moved 0"},
		{"TheAdministratorMovesAll", "admin", "b", []string{"free", "kube-system", "held"}, "free Moved 0, kube-system Moved 0, held Moved 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, _ := json.Marshal(map[string]any{"namespaces": c.namespaces})
			var out struct {
				Items []struct {
					Namespace, Result, Message string
					Code                       int32
				}
				TotalItems int
			}
			if err := json.Unmarshal([]byte(w.must(http.StatusOK, c.who, http.MethodPost, "/workspaces/"+c.to+"/namespaceassignments", string(body))),
				&out); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, i := range out.Items {
				got = append(got, fmt.Sprintf("%s %s %d", i.Namespace, i.Result, i.Code))
				if (i.Result == resultFailed) != (i.Message != "") {
					t.Errorf("%+v", i)
				}
			}
			if s := strings.Join(got, ", "); s != c.want || out.TotalItems != len(c.namespaces) {
				t.Errorf("%s, want %s", s, c.want)
			}
		})
	}
	if !slices.Equal(w.kube.sent[:2], []string{"PATCH /api/v1/namespaces/a1 as " + groupMove, "PATCH /api/v1/namespaces/a2 as " + groupMove}) ||
		w.kube.workspaceOf("a1") != "b" {
		t.Errorf("sent %v", w.kube.sent)
	}
	// A namespace in no workspace needs a right of the cluster, which is also the one that is used.
	if !slices.Contains(w.kube.sent, "PATCH /api/v1/namespaces/free as kapis:platform") {
		t.Errorf("sent %v", w.kube.sent)
	}
	w.must(http.StatusForbidden, "giver", http.MethodPost, "/workspaces/b/namespaceassignments", `{"namespaces":["a1"]}`)
	for body, code := range map[string]int{
		`{}`: 400, `x`: 400, `{"namespaces":["a","a"]}`: 400, `{"namespaces":["a/b"]}`: 400, `{"namespaces":[".."]}`: 400, `{"namespaces":[""]}`: 400,
		`{"namespaces":["` + strings.Repeat(`a","`, maxAssigned) + `b"]}`: 400,
	} {
		w.must(code, "admin", http.MethodPost, "/workspaces/b/namespaceassignments", body)
	}
	w.must(http.StatusNotFound, "admin", http.MethodPost, "/workspaces/none/namespaceassignments", `{"namespaces":["a1"]}`)
}

// The workspace of a namespace is the one at kube-apiserver: a stale cache moves nothing.
func TestAMoveIsOfTheWorkspaceThatWasAuthorized(t *testing.T) {
	w := newWorld(t)
	w.allow("both", "create namespaces b", "update namespaces a", "delete namespaces a")
	w.kube.touch("/api/v1/namespaces/a1", func(o map[string]any) { metadata(o)["labels"] = map[string]any{"kubesphere.io/workspace": "c"} })
	body := w.must(http.StatusOK, "both", http.MethodPost, "/workspaces/b/namespaceassignments", `{"namespaces":["a1"]}`)
	if !strings.Contains(body, `"code":409`) || len(w.kube.sent) != 0 {
		t.Errorf("%s, sent %v", body, w.kube.sent)
	}
}
