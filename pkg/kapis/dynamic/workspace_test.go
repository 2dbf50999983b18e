package dynamic

import (
	"net/http"
	"strings"
	"testing"

	"kapis.dev/ks-apiserver/pkg/caller"
)

const inWA = "/kapi/v1/workspaces/w-a/namespaces"

func TestCreatesAreStampedWithTheWorkspace(t *testing.T) { // S7
	w := newWorld(t)
	for _, c := range []struct{ name, body, want string }{
		{"NoLabels", namespace, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","labels":{"kubesphere.io/workspace":"w-a"}}}`},
		{"NullLabels", `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":null}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubesphere.io/workspace":"w-a"}}}`},
		{"OtherLabels", `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"a":"b"}}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"a":"b","kubesphere.io/workspace":"w-a"}}}`},
		{"NoMetadata", `{"apiVersion":"v1","kind":"Namespace"}`, `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubesphere.io/workspace":"w-a"}}}`},
		{"TheLabel", `{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubesphere.io/workspace":"w-a"}}}`,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"labels":{"kubesphere.io/workspace":"w-a"}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.do(t, "POST", inWA, c.body)
			if s := w.only(t); s.body != c.want {
				t.Errorf("sent %s", s.body)
			}
		})
	}
	t.Run("ObjectsInANamespaceAreNot", func(t *testing.T) {
		w.do(t, "POST", inWA+"/a/pods", pod)
		if s := w.only(t); s.body != podInA {
			t.Errorf("sent %s", s.body)
		}
	})
}

func TestNothingMovesToAnotherWorkspaceByItsLabel(t *testing.T) { // S7
	w := newWorld(t)
	w.holds("w-a")
	object := func(labels string) string {
		return `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","labels":` + labels + `}}`
	}
	for _, c := range []struct{ name, method, path, contentType, body string }{
		{"Create", "POST", inWA, typeJSON, object(`{"kubesphere.io/workspace":"w-b"}`)},
		{"CreateTwice", "POST", inWA, typeJSON, object(`{"kubesphere.io/workspace":"w-a","kubesphere.io/workspace":"w-b"}`)},
		{"CreateNull", "POST", inWA, typeJSON, object(`{"kubesphere.io/workspace":null}`)},
		{"CreateEmpty", "POST", inWA, typeJSON, object(`{"kubesphere.io/workspace":""}`)},
		{"Update", "PUT", inWA + "/a", typeJSON, object(`{"kubesphere.io/workspace":"w-b"}`)},
		{"UpdateYAML", "PUT", inWA + "/a", typeYAML, "apiVersion: v1\nkind: Namespace\nmetadata: {labels: {kubesphere.io/workspace: w-b}}"},
		{"UpdateStatus", "PUT", inWA + "/a/status", typeJSON, object(`{"kubesphere.io/workspace":"w-b"}`)},
		{"MergePatch", "PATCH", inWA + "/a", typeMergePatch, `{"metadata":{"labels":{"kubesphere.io/workspace":"w-b"}}}`},
		{"MergePatchRemoves", "PATCH", inWA + "/a", typeMergePatch, `{"metadata":{"labels":{"kubesphere.io/workspace":null}}}`},
		{"StrategicPatch", "PATCH", inWA + "/a", typeStrategicPatch, `{"metadata":{"labels":{"kubesphere.io/workspace":"w-b"}}}`},
		{"StrategicPatchDeletesTheLabels", "PATCH", inWA + "/a", typeStrategicPatch, `{"metadata":{"labels":{"$patch":"delete"}}}`},
		{"StrategicPatchReplacesTheLabels", "PATCH", inWA + "/a", typeStrategicPatch, `{"metadata":{"labels":{"$patch":"replace","a":"b"}}}`},
		{"StrategicPatchReplacesMetadata", "PATCH", inWA + "/a", typeStrategicPatch, `{"metadata":{"$patch":"replace"}}`},
		{"StrategicPatchReplacesAll", "PATCH", inWA + "/a", typeStrategicPatch, `{"$patch":"replace"}`},
		{"StrategicPatchRetains", "PATCH", inWA + "/a", typeStrategicPatch, `{"metadata":{"$retainKeys":["name"]}}`},
		{"Apply", "PATCH", inWA + "/a", typeApplyPatch, object(`{"kubesphere.io/workspace":"w-b"}`)},
		{"JSONPatch", "PATCH", inWA + "/a", typeJSONPatch, `[{"op":"replace","path":"/metadata/labels/kubesphere.io~1workspace","value":"w-b"}]`},
		{"JSONPatchRemoves", "PATCH", inWA + "/a", typeJSONPatch, `[{"op":"remove","path":"/metadata/labels/kubesphere.io~1workspace"}]`},
		{"JSONPatchMoves", "PATCH", inWA + "/a", typeJSONPatch, `[{"op":"move","from":"/metadata/labels/kubesphere.io~1workspace","path":"/metadata/labels/x"}]`},
		{"JSONPatchCopies", "PATCH", inWA + "/a", typeMergePatch, `[{"op":"copy","from":"/metadata/labels/x","path":"/metadata/labels/kubesphere.io~1workspace"}]`},
		{"JSONPatchOfAllLabels", "PATCH", inWA + "/a", typeJSONPatch, `[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`},
		{"JSONPatchRemovesAllLabels", "PATCH", inWA + "/a", typeJSONPatch, `[{"op":"remove","path":"/metadata/labels"}]`},
		{"JSONPatchOfMetadata", "PATCH", inWA + "/a", typeJSONPatch, `[{"op":"add","path":"/metadata","value":{}}]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.refused(t, 400, "", c.method, c.path, c.body, "Content-Type: "+c.contentType)
		})
	}
}

func TestObjectsOfAnotherWorkspaceAreNotThere(t *testing.T) {
	w := newWorld(t)
	for _, holder := range []string{"w-b", ""} {
		w.holds(holder)
		for _, c := range []struct{ name, method, path, contentType, body string }{
			{"Update", "PUT", inWA + "/a", typeJSON, namespace},
			{"UpdateSubresource", "PUT", inWA + "/a/finalize", typeJSON, namespace},
			{"MergePatch", "PATCH", inWA + "/a", typeMergePatch, `{}`},
			{"StrategicPatch", "PATCH", inWA + "/a", typeStrategicPatch, `{}`},
			{"JSONPatch", "PATCH", inWA + "/a", typeJSONPatch, `[]`},
			{"Delete", "DELETE", inWA + "/a", "", ""},
		} {
			t.Run(c.name, func(t *testing.T) {
				w.refused(t, 404, "NotFound", c.method, c.path, c.body, "Content-Type: "+c.contentType)
			})
		}
	}
	t.Run("NorAreThoseThatAreNotThere", func(t *testing.T) {
		w.answer = func(seen) (int, string) {
			return 404, `{"kind":"Status","code":404,"reason":"NotFound","message":"namespaces \"a\" not found"}`
		}
		w.refused(t, 404, "NotFound", "DELETE", inWA+"/a", "")
	})
	t.Run("WhoMayNotReadMayNotWrite", func(t *testing.T) {
		w.answer = func(seen) (int, string) {
			return 403, `{"kind":"Status","code":403,"reason":"Forbidden","message":"bob may not get it"}`
		}
		w.refused(t, 403, "bob may not", "PUT", inWA+"/a", namespace)
	})
}

func TestAWriteInAWorkspaceHoldsWhateverTheRace(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ name, method, contentType, body, want string }{
		{"Update", "PUT", typeJSON, namespace, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","labels":{"kubesphere.io/workspace":"w-a"},"resourceVersion":"7"}}`},
		{"MergePatch", "PATCH", typeMergePatch, `{"x":1}`, `{"x":1,"metadata":{"labels":{"kubesphere.io/workspace":"w-a"},"resourceVersion":"7"}}`},
		{"StrategicPatch", "PATCH", typeStrategicPatch, `{"metadata":{"labels":{"a":null}}}`,
			`{"metadata":{"labels":{"a":null,"kubesphere.io/workspace":"w-a"},"resourceVersion":"7"}}`},
		{"Apply", "PATCH", typeApplyPatch, namespace,
			`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","labels":{"kubesphere.io/workspace":"w-a"},"resourceVersion":"7"}}`},
		{"JSONPatch", "PATCH", typeJSONPatch, `[{"op":"add","path":"/x","value":1}]`,
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/labels/kubesphere.io~1workspace","value":"w-a"},` +
				`{"op":"add","path":"/x","value":1},{"op":"test","path":"/metadata/labels/kubesphere.io~1workspace","value":"w-a"}]`},
		{"JSONPatchOfLabels", "PATCH", typeJSONPatch, `[{"op":"add","path":"/metadata/labels","value":{"kubesphere.io/workspace":"w-a"}}]`,
			`[{"op":"test","path":"/metadata/uid","value":"u"},{"op":"test","path":"/metadata/labels/kubesphere.io~1workspace","value":"w-a"},` +
				`{"op":"add","path":"/metadata/labels","value":{"kubesphere.io/workspace":"w-a"}},{"op":"test","path":"/metadata/labels/kubesphere.io~1workspace","value":"w-a"}]`},
		{"Delete", "DELETE", "", "", `{"preconditions":{"uid":"u","resourceVersion":"7"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.holds("w-a")
			if rec := w.do(t, c.method, inWA+"/a", c.body, "Content-Type: "+c.contentType); rec.Code != http.StatusOK {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if s := w.only(t); s.body != c.want {
				t.Errorf("sent %s\nwant %s", s.body, c.want)
			}
			if look := w.seen[0]; look.method != http.MethodGet || look.path != "/api/v1/namespaces/a" || look.info.Verb != "get" || look.accept != metadataOnly {
				t.Errorf("looked by %+v", look)
			}
		})
	}
	t.Run("AnotherWriteBetweenIsSeen", func(t *testing.T) {
		w.holds("w-a", 409, 409, 200)
		rec := w.do(t, "PATCH", inWA+"/a", `{"x":1}`)
		if n := w.writes(); rec.Code != 200 || len(n) != 3 || !strings.Contains(n[2].body, `"resourceVersion":"9"`) {
			t.Errorf("%d %s %+v", rec.Code, rec.Body, n)
		}
	})
	t.Run("ButNotForEver", func(t *testing.T) {
		w.holds("w-a", 409, 409, 409, 409, 409, 409)
		if rec := w.do(t, "DELETE", inWA+"/a", ""); rec.Code != 409 || len(w.writes()) != caller.Attempts {
			t.Errorf("%d %s after %d", rec.Code, rec.Body, len(w.writes()))
		}
	})
	t.Run("MovedBetweenIsSeen", func(t *testing.T) {
		looks := 0
		w.answer = func(s seen) (int, string) {
			if s.method != http.MethodGet {
				return 409, `{"kind":"Status","code":409}`
			}
			looks++
			holder := map[bool]string{true: "w-a", false: "w-b"}[looks == 1]
			return 200, `{"metadata":{"uid":"u","resourceVersion":"7","labels":{"kubesphere.io/workspace":"` + holder + `"}}}`
		}
		if rec := w.do(t, "PATCH", inWA+"/a", `{"x":1}`); rec.Code != 404 || len(w.writes()) != 1 {
			t.Errorf("%d %s after %d", rec.Code, rec.Body, len(w.writes()))
		}
	})
	t.Run("TheCallersOwnVersionCounts", func(t *testing.T) {
		w.holds("w-a")
		w.refused(t, 409, "modified", "PATCH", inWA+"/a", `{"metadata":{"resourceVersion":"6"}}`)
		w.holds("w-a")
		w.refused(t, 409, "modified", "PUT", inWA+"/a", `{"apiVersion":"v1","kind":"Namespace","metadata":{"resourceVersion":"6"}}`)
		w.holds("w-a")
		w.refused(t, 409, "modified", "DELETE", inWA+"/a", `{"preconditions":{"resourceVersion":"6"}}`)
		w.holds("w-a")
		w.refused(t, 409, "modified", "DELETE", inWA+"/a", `{"preconditions":{"uid":"v"}}`)
		w.holds("w-a", 409)
		if rec := w.do(t, "PATCH", inWA+"/a", `{"metadata":{"resourceVersion":"7"}}`); rec.Code != 409 || len(w.writes()) != 1 {
			t.Errorf("%d %s after %d", rec.Code, rec.Body, len(w.writes()))
		}
	})
	t.Run("ALookWithoutAVersionIsNone", func(t *testing.T) {
		w.answer = func(seen) (int, string) {
			return 200, `{"metadata":{"labels":{"kubesphere.io/workspace":"w-a"}}}`
		}
		w.refused(t, 502, "safely", "DELETE", inWA+"/a", "")
	})
}

func TestApplyingWhatIsNotThereCreatesIt(t *testing.T) {
	w := newWorld(t)
	missing := `{"kind":"Status","code":404,"reason":"NotFound","message":"not found"}`
	applied := `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a","labels":{"kubesphere.io/workspace":"w-a"},"resourceVersion":"1"}}`
	for name, c := range map[string]struct{ answer, want int }{"NotThere": {201, 200}, "ThereAfterAll": {409, 404}} {
		t.Run(name, func(t *testing.T) {
			w.answer = func(s seen) (int, string) {
				if s.method == http.MethodGet {
					return 404, missing
				}
				return c.answer, `{}`
			}
			rec := w.do(t, "PATCH", inWA+"/a?fieldManager=m&force=true", namespace, "Content-Type: "+typeApplyPatch)
			if s := w.only(t); rec.Code != c.want || s.body != applied || s.query != "fieldManager=m&force=true" {
				t.Errorf("%d %s, sent %+v", rec.Code, rec.Body, s)
			}
		})
	}
	t.Run("AMergePatchDoesNot", func(t *testing.T) {
		w.answer = func(seen) (int, string) { return 404, missing }
		w.refused(t, 404, "not found", "PATCH", inWA+"/a", `{}`)
	})
}

func TestDeleteOptionsOfBodyAndQueryAreJoined(t *testing.T) { // S22
	w := newWorld(t)
	for _, c := range []struct{ name, query, body, want string }{
		{"None", "", "", `{}`},
		{"OfTheQuery", "?dryRun=All&gracePeriodSeconds=0&propagationPolicy=Orphan&orphanDependents=true", "",
			`{"gracePeriodSeconds":0,"orphanDependents":true,"propagationPolicy":"Orphan","dryRun":["All"]}`},
		{"OfTheBody", "", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background","dryRun":["All"]}`,
			`{"propagationPolicy":"Background","dryRun":["All"]}`},
		{"OfBoth", "?dryRun=All", `{"propagationPolicy":"Background"}`, `{"propagationPolicy":"Background","dryRun":["All"]}`},
		{"TheSameInBoth", "?propagationPolicy=Background", `{"propagationPolicy":"Background"}`, `{"propagationPolicy":"Background"}`},
		{"Version", "?resourceVersion=7", `{"preconditions":{"uid":"u"}}`, `{"preconditions":{"uid":"u","resourceVersion":"7"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if rec := w.do(t, "DELETE", "/kapi/v1/namespaces/a/pods/p"+c.query, c.body); rec.Code != 200 || w.only(t).body != c.want || w.only(t).query != "" {
				t.Errorf("%d %s, sent %+v", rec.Code, rec.Body, w.seen)
			}
		})
	}
	for _, c := range []struct{ query, body, has string }{
		{"?propagationPolicy=Orphan", `{"propagationPolicy":"Background"}`, "say it once"},
		{"?gracePeriodSeconds=1", `{"gracePeriodSeconds":0}`, "say it once"},
		{"?orphanDependents=true", `{"orphanDependents":false}`, "say it once"},
		{"?dryRun=All", `{"dryRun":["None"]}`, "say it once"},
		{"?resourceVersion=7", `{"preconditions":{"resourceVersion":"8"}}`, "say it once"},
		{"", `{"kind":"Pod"}`, "DeleteOptions"}, {"", `{"dryRuns":["All"]}`, "dryRuns"}, {"", `{"dryrun":["All"]}`, "dryrun"}, {"", `{"dryRun":"All"}`, "DeleteOptions"}, {"", `[]`, "DeleteOptions"},
		{"", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, "ask kube-apiserver itself"},
	} {
		w.refused(t, 400, c.has, "DELETE", "/kapi/v1/namespaces/a/pods/p"+c.query, c.body)
	}
}

func TestACollectionIsDeletedByItsSelectors(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ name, path, want string }{
		{"All", "/kapi/v1/namespaces/a/pods", ""},
		{"Selected", "/kapi/v1/namespaces/a/pods?labelSelector=a%3Db,c&fieldSelector=status.phase%3DFailed",
			"fieldSelector=status.phase%3DFailed&labelSelector=a%3Db%2Cc"},
		{"InAWorkspace", inWA, "labelSelector=kubesphere.io%2Fworkspace%3Dw-a"},
		{"SelectedInAWorkspace", inWA + "?labelSelector=a+in+(b,c)", "labelSelector=a+in+%28b%2Cc%29%2Ckubesphere.io%2Fworkspace%3Dw-a"},
		{"OfAnotherWorkspaceInAWorkspace", inWA + "?labelSelector=kubesphere.io/workspace%3Dw-b",
			"labelSelector=kubesphere.io%2Fworkspace%3Dw-b%2Ckubesphere.io%2Fworkspace%3Dw-a"},
		{"InANamespaceOfAWorkspace", inWA + "/a/pods", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if rec := w.do(t, "DELETE", c.path, ""); rec.Code != 200 || w.only(t).query != c.want || w.only(t).info.Verb != "deletecollection" {
				t.Errorf("%d %s, sent %+v", rec.Code, rec.Body, w.seen)
			}
		})
	}
	for query, has := range map[string]string{
		"labelSelector=a%3Db|c%3Dd": "alternatives", "labelSelector=a%3D(": "label selector", "name=web": "does not restrict", "limit=10": "does not restrict",
		"LabelSelector=a": "does not restrict", "resourceVersion=7": "does not restrict", "q=x": "does not restrict",
	} {
		w.refused(t, 400, has, "DELETE", "/kapi/v1/namespaces/a/pods?"+query, "")
	}
}
