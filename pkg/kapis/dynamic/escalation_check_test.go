package dynamic

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/kapis/dynamic/read"
	"kapis.dev/ks-apiserver/pkg/kapis/kapistest"
	"kapis.dev/ks-apiserver/pkg/rawjson"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// strict refuses every Workspace that contains "evil", which stands for a kind of roles, and records the writes that it checks.
type strict struct {
	asked []admission.Write
	// before runs before it answers.
	before func()
	// refuses is a verb that it refuses.
	refuses string
	// made counts the writes that it was told were made.
	made int
}

func (s *strict) Guards(gr schema.GroupResource) bool { return gr.Resource == "workspaces" }

func (s *strict) Check(_ context.Context, w *admission.Write) error {
	s.asked = append(s.asked, *w)
	w.WhenMade = func() bool { s.made++; return true }
	if s.before != nil {
		s.before()
	}
	if strings.Contains(string(w.Object), "evil") || w.Verb == s.refuses {
		return apierrors.NewForbidden(w.GVR.GroupResource(), w.Name, errors.New("the caller does not hold it"))
	}
	return nil
}

const (
	roles    = "/kapis/tenant.kubesphere.io/v1beta1/workspaces"
	roleNow  = `{"apiVersion":"tenant.kubesphere.io/v1beta1","kind":"Workspace","metadata":{"name":"r","uid":"u1","resourceVersion":"7"},"rules":[]}`
	goodRole = `{"apiVersion":"tenant.kubesphere.io/v1beta1","kind":"Workspace","metadata":{"name":"r"},"rules":[]}`
	evilRole = `{"apiVersion":"tenant.kubesphere.io/v1beta1","kind":"Workspace","metadata":{"name":"r"},"rules":["evil"]}`
)

func newGuardedWorld(t *testing.T) (*world, *strict) {
	t.Helper()
	k, g := &fakeKube{}, &strict{}
	k.answer = func(s seen) (int, string) {
		switch {
		case s.method == http.MethodGet:
			return http.StatusOK, roleNow
		case strings.Contains(s.body, "evil"): // the outcome
			return http.StatusOK, evilRole
		}
		return http.StatusOK, goodRole
	}
	return &world{k, kapistest.Container(WebServices(&Handler{Handler: &read.Handler{Resources: kapistest.NewService(t)}, Kube: k, Guard: g})...)}, g
}

// realWrites returns the writes that were no dry run.
func (w *world) realWrites() (out []seen) {
	for _, s := range w.writes() {
		if !strings.Contains(s.query, "dryRun=All") {
			out = append(out, s)
		}
	}
	return out
}

func TestWhatTheGuardRefusesIsNotSent(t *testing.T) { // S6, S60
	for name, c := range map[string]struct{ method, path, body, contentType string }{
		"Create":     {http.MethodPost, roles, evilRole, typeJSON},
		"Replace":    {http.MethodPut, roles + "/r", evilRole, typeJSON},
		"MergePatch": {http.MethodPatch, roles + "/r", `{"rules":["evil"]}`, typeMergePatch},
		"JSONPatch":  {http.MethodPatch, roles + "/r", `[{"op":"add","path":"/rules/-","value":"evil"}]`, typeJSONPatch},
		"AnArray":    {http.MethodPatch, roles + "/r", `[{"op":"add","path":"/rules/-","value":"evil"}]`, typeMergePatch},
		"Strategic":  {http.MethodPatch, roles + "/r", `{"rules":["evil"]}`, typeStrategicPatch},
		"Apply":      {http.MethodPatch, roles + "/r?fieldManager=x", evilRole, typeApplyPatch},
		// No dryRun of the caller makes the trial a real write.
		"MergePatchWithoutTrial": {http.MethodPatch, roles + "/r?dryRun=None", `{"rules":["evil"]}`, typeMergePatch},
		"JSONPatchWithoutTrial":  {http.MethodPatch, roles + "/r?dryRun=", `[{"op":"add","path":"/rules/-","value":"evil"}]`, typeJSONPatch},
	} {
		t.Run(name, func(t *testing.T) {
			w, g := newGuardedWorld(t)
			rec := w.do(t, c.method, c.path, c.body, "Content-Type: "+c.contentType)
			if rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), "does not hold it") || len(w.realWrites()) != 0 {
				t.Errorf("%d %s, sent %+v", rec.Code, rec.Body, w.realWrites())
			}
			one := g.asked[0]
			if len(g.asked) != 1 || one.By.GetName() != "bob" || one.GVR.Resource != "workspaces" || (one.Verb == "update") != (string(one.Old) == roleNow) {
				t.Errorf("asked %+v", g.asked)
			}
		})
	}
}

func TestAnAppliedRoleThatIsNotThereIsCheckedToo(t *testing.T) { // S6
	w, g := newGuardedWorld(t)
	inner := w.answer
	w.answer = func(s seen) (int, string) {
		if s.method == http.MethodGet {
			return http.StatusNotFound, `{"kind":"Status","status":"Failure","code":404,"reason":"NotFound"}`
		}
		_, body := inner(s)
		return http.StatusCreated, body
	}
	if rec := w.do(t, http.MethodPatch, roles+"/r?fieldManager=x", evilRole, "Content-Type: "+typeApplyPatch); rec.Code != http.StatusForbidden ||
		len(w.realWrites()) != 0 || g.asked[0].Verb != "create" {
		t.Errorf("%d %s, asked %+v", rec.Code, rec.Body, g.asked)
	}
	if rec := w.do(t, http.MethodPatch, roles+"/r?fieldManager=x", goodRole, "Content-Type: "+typeApplyPatch); rec.Code != http.StatusOK ||
		len(w.realWrites()) != 1 || !strings.Contains(w.realWrites()[0].body, `"resourceVersion":"1"`) {
		t.Errorf("%d %s, sent %+v", rec.Code, rec.Body, w.realWrites())
	}
}

func TestWhatIsSentIsWhatTheGuardHasSeen(t *testing.T) { // S6
	for name, c := range map[string]struct{ method, path, body, contentType, lock string }{
		"Replace":    {http.MethodPut, roles + "/r", goodRole, typeJSON, `"resourceVersion":"7"`},
		"MergePatch": {http.MethodPatch, roles + "/r", `{"rules":[]}`, typeMergePatch, `"resourceVersion":"7"`},
		"Apply":      {http.MethodPatch, roles + "/r?fieldManager=x", goodRole, typeApplyPatch, `"resourceVersion":"7"`},
		"JSONPatch": {http.MethodPatch, roles + "/r", `[{"op":"remove","path":"/rules/0"}]`, typeJSONPatch,
			`{"op":"test","path":"/metadata/resourceVersion","value":"7"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w, g := newGuardedWorld(t)
			rec := w.do(t, c.method, c.path, c.body, "Content-Type: "+c.contentType)
			sent := w.realWrites()
			if rec.Code != http.StatusOK || len(g.asked) != 1 || len(sent) != 1 || !strings.Contains(sent[0].body, c.lock) {
				t.Fatalf("%d %s, sent %+v", rec.Code, rec.Body, sent)
			}
			for _, s := range w.writes() {
				if c.method == http.MethodPatch && (s.body != sent[0].body || s.contentType != sent[0].contentType) {
					t.Errorf("tried was %s, sent %s", s.body, sent[0].body)
				}
			}
		})
	}
}

func TestAWriteBetweenIsSeenAndCheckedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		body, contentType string
		code              int
	}{
		"MergePatch": {`{"rules":[]}`, typeMergePatch, http.StatusConflict}, "JSONPatch": {`[{"op":"remove","path":"/rules/0"}]`, typeJSONPatch,
			http.StatusUnprocessableEntity},
	} {
		t.Run(name, func(t *testing.T) {
			w, g := newGuardedWorld(t)
			inner, version := w.answer, "7"
			w.answer = func(s seen) (int, string) {
				switch {
				case s.method == http.MethodGet:
					return http.StatusOK, strings.Replace(roleNow, `"7"`, strconv.Quote(version), 1)
				case !strings.Contains(s.query, "dryRun") && version == "7":
					version = "8"
					return c.code, `{"kind":"Status","status":"Failure","code":409,"reason":"Conflict"}`
				}
				return inner(s)
			}
			rec := w.do(t, http.MethodPatch, roles+"/r", c.body, "Content-Type: "+c.contentType)
			if rec.Code != http.StatusOK || len(g.asked) != 2 || rawjson.GetText(string(g.asked[1].Old), "metadata", "resourceVersion") != "8" {
				t.Errorf("%d %s, asked %d times", rec.Code, rec.Body, len(g.asked))
			}
		})
	}
}

func TestOtherKindsAreNotSlowedDown(t *testing.T) {
	w, g := newGuardedWorld(t)
	if rec := w.do(t, http.MethodPatch, "/kapi/v1/namespaces/a/pods/p", `{"evil":1}`, "Content-Type: "+typeMergePatch); rec.Code != http.StatusOK ||
		len(w.seen) != 1 || len(g.asked) != 0 {
		t.Errorf("%d %s, seen %+v", rec.Code, rec.Body, w.seen)
	}
	if rec := w.do(t, http.MethodDelete, "/kapi/v1/namespaces/a/pods/p", ""); rec.Code != http.StatusOK || len(w.seen) != 1 || len(g.asked) != 0 {
		t.Errorf("%d %s, seen %+v", rec.Code, rec.Body, w.seen)
	}
}

func TestADeletionIsCheckedAgainstWhatIsThere(t *testing.T) { // S72
	w, g := newGuardedWorld(t)
	deletion := func(path string, code, asked, sent int) {
		t.Helper()
		g.asked, w.seen = nil, nil
		if rec := w.do(t, http.MethodDelete, path, ""); rec.Code != code || len(g.asked) != asked || len(w.seen) != sent {
			t.Errorf("%s: %d %s, asked %d times, sent %+v", path, rec.Code, rec.Body, len(g.asked), w.seen)
		}
		for _, a := range g.asked {
			if a.Verb != "delete" || a.Object != nil || len(a.Old) == 0 {
				t.Errorf("%s: asked about %+v", path, a)
			}
		}
	}
	deletion(roles+"/r", http.StatusOK, 1, 2)
	if last := w.seen[1]; last.method != http.MethodDelete || !strings.Contains(last.body, `"resourceVersion":"7"`) {
		t.Errorf("it was sent without the version that was checked: %+v", last)
	}
	g.refuses = "delete"
	deletion(roles+"/r", http.StatusForbidden, 1, 1)
	list := `{"items":[` + roleNow + `,` + roleNow + `]}`
	w.answer = func(seen) (int, string) { return http.StatusOK, list }
	deletion(roles+"?labelSelector=a", http.StatusForbidden, 1, 1)
	g.refuses = ""
	deletion(roles+"?labelSelector=a", http.StatusOK, 2, 2)
	if first := w.seen[0]; first.method != http.MethodGet || first.query != w.seen[1].query {
		t.Errorf("checked is %+v, sent %+v", first, w.seen[1])
	}
	list = "[]"
	deletion(roles, http.StatusBadGateway, 0, 1)
}

// The guard counts the end of an administrator for a while if it was made: not one that kube-apiserver refused, or made as a dry run.
func TestTheGuardIsToldWhatWasMade(t *testing.T) { // S72
	for name, c := range map[string]struct {
		method, path, body string
		code               int
		made               int
	}{
		"Deleted":                    {http.MethodDelete, roles + "/r", "", http.StatusOK, 1},
		"DeletedAllThatMatch":        {http.MethodDelete, roles + "?labelSelector=a%3Db", "", http.StatusOK, 2},
		"Replaced":                   {http.MethodPut, roles + "/r", goodRole, http.StatusOK, 1},
		"Patched":                    {http.MethodPatch, roles + "/r", `{"rules":[]}`, http.StatusOK, 1},
		"DeletionRefused":            {http.MethodDelete, roles + "/r", "", http.StatusForbidden, 0},
		"DeletionOfMatchesRefused":   {http.MethodDelete, roles + "?labelSelector=a%3Db", "", http.StatusForbidden, 0},
		"ReplacementRefused":         {http.MethodPut, roles + "/r", goodRole, http.StatusForbidden, 0},
		"DeletionWhileItChanges":     {http.MethodDelete, roles + "/r", "", http.StatusConflict, 0},
		"DeletionTried":              {http.MethodDelete, roles + "/r?dryRun=All", "", http.StatusOK, 0},
		"DeletionTriedByItsBody":     {http.MethodDelete, roles + "/r", `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}`, http.StatusOK, 0},
		"ReplacementTried":           {http.MethodPut, roles + "/r?dryRun=All", goodRole, http.StatusOK, 0},
		"PatchTried":                 {http.MethodPatch, roles + "/r?dryRun=All", `{"rules":[]}`, http.StatusOK, 0},
		"DeletionOfWhatMatchesTried": {http.MethodDelete, roles + "?labelSelector=a%3Db&dryRun=All", "", http.StatusOK, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, g := newGuardedWorld(t)
			inner := w.answer
			w.answer = func(s seen) (int, string) {
				if s.method == http.MethodGet && strings.HasSuffix(s.path, "/workspaces") {
					return http.StatusOK, `{"kind":"WorkspaceList","items":[` + roleNow + `,` + roleNow + `]}`
				}
				if code, body := inner(s); s.method == http.MethodGet || strings.Contains(s.query, "dryRun=All") {
					return code, body
				}
				if c.code >= http.StatusBadRequest {
					return c.code, `{"kind":"Status","status":"Failure","code":` + strconv.Itoa(c.code) + `}`
				}
				return c.code, goodRole
			}
			contentType := typeJSON
			if c.method == http.MethodPatch {
				contentType = typeMergePatch
			}
			rec := w.do(t, c.method, c.path, c.body, "Content-Type: "+contentType)
			if rec.Code != c.code || g.made != c.made || len(g.asked) == 0 {
				t.Errorf("%d %s: of %d that were checked %d were made, want %d", rec.Code, rec.Body, len(g.asked), g.made, c.made)
			}
			for _, one := range g.asked {
				if tried := strings.HasSuffix(name, "Tried") || strings.HasSuffix(name, "TriedByItsBody"); one.DryRun != tried {
					t.Errorf("a dry run: %t", one.DryRun)
				}
			}
		})
	}
}
