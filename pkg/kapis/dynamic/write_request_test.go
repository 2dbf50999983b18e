package dynamic

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"kapis.dev/ks-apiserver/pkg/rawjson"
)

const (
	pod       = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
	podInA    = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"}}`
	namespace = `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`
)

func TestWritesGoToTheSamePlaceAtKubeAPIServer(t *testing.T) { // S23
	w := newWorld(t)
	w.holds("w-a")
	for _, c := range []struct{ name, method, path, body, to, verb string }{
		{"Create", "POST", "/kapi/v1/namespaces/a/pods", pod, "/api/v1/namespaces/a/pods", "create"},
		{"CreateOfTheCluster", "POST", "/kapi/v1/namespaces", namespace, "/api/v1/namespaces", "create"},
		{"CreateInAGroup", "POST", "/kapis/tenant.kubesphere.io/v1beta1/workspaces",
			`{"apiVersion":"tenant.kubesphere.io/v1beta1","kind":"Workspace","metadata":{"name":"x"}}`, "/apis/tenant.kubesphere.io/v1beta1/workspaces", "create"},
		{"CreateInAWorkspace", "POST", "/kapi/v1/workspaces/w-a/namespaces", namespace, "/api/v1/namespaces", "create"},
		{"CreateInANamespaceOfAWorkspace", "POST", "/kapi/v1/workspaces/w-a/namespaces/a/pods", pod, "/api/v1/namespaces/a/pods", "create"},
		{"CreateSubresource", "POST", "/kapi/v1/namespaces/a/pods/p/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`,
			"/api/v1/namespaces/a/pods/p/eviction", "create"},
		{"Update", "PUT", "/kapi/v1/namespaces/a/pods/p", pod, "/api/v1/namespaces/a/pods/p", "update"},
		{"UpdateSubresource", "PUT", "/kapi/v1/namespaces/a/pods/p/status", pod, "/api/v1/namespaces/a/pods/p/status", "update"},
		{"UpdateOfAnotherKindsSubresource", "PUT", "/kapi/v1/namespaces/a/pods/p/scale", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"p"}}`,
			"/api/v1/namespaces/a/pods/p/scale", "update"},
		{"UpdateNamespaceStatus", "PUT", "/kapi/v1/namespaces/a/status", namespace, "/api/v1/namespaces/a/status", "update"},
		{"UpdateTheWorkspaceItself", "PUT", "/kapis/tenant.kubesphere.io/v1beta1/workspaces/w",
			`{"apiVersion":"tenant.kubesphere.io/v1beta1","kind":"Workspace","metadata":{"name":"w"}}`, "/apis/tenant.kubesphere.io/v1beta1/workspaces/w", "update"},
		{"UpdateInAWorkspace", "PUT", "/kapi/v1/workspaces/w-a/namespaces/a", namespace, "/api/v1/namespaces/a", "update"},
		{"UpdateStatusInAWorkspace", "PUT", "/kapi/v1/workspaces/w-a/namespaces/a/status", namespace, "/api/v1/namespaces/a/status", "update"},
		{"Patch", "PATCH", "/kapi/v1/namespaces/a/pods/p", `{}`, "/api/v1/namespaces/a/pods/p", "patch"},
		{"PatchSubresource", "PATCH", "/kapi/v1/namespaces/a/pods/p/status", `{}`, "/api/v1/namespaces/a/pods/p/status", "patch"},
		{"Delete", "DELETE", "/kapi/v1/namespaces/a/pods/p", "", "/api/v1/namespaces/a/pods/p", "delete"},
		{"DeleteInAWorkspace", "DELETE", "/kapi/v1/workspaces/w-a/namespaces/a", "", "/api/v1/namespaces/a", "delete"},
		{"DeleteInANamespaceOfAWorkspace", "DELETE", "/kapi/v1/workspaces/w-a/namespaces/a/pods/p", "", "/api/v1/namespaces/a/pods/p", "delete"},
		{"DeleteCollection", "DELETE", "/kapi/v1/namespaces/a/pods", "", "/api/v1/namespaces/a/pods", "deletecollection"},
		{"DeleteCollectionInAWorkspace", "DELETE", "/kapi/v1/workspaces/w-a/namespaces", "", "/api/v1/namespaces", "deletecollection"},
		{"OnThisClusterByName", "PUT", "/clusters/host/kapi/v1/namespaces/a/pods/p", pod, "/api/v1/namespaces/a/pods/p", "update"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := strings.TrimPrefix(c.path, "/clusters/host") // what the assembly routes by
			rec := w.do(t, c.method, path, c.body)
			if rec.Code != http.StatusOK {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			s := w.only(t)
			if s.method != c.method || s.path != c.to || s.info.Verb != c.verb || !s.info.IsKubernetes || s.agent != "kubectl/v1" {
				t.Errorf("%+v", s)
			}
		})
	}
}

func TestTheBodyAgreesWithThePath(t *testing.T) {
	w := newWorld(t)
	pods, p := "/kapi/v1/namespaces/a/pods", "/kapi/v1/namespaces/a/pods/p"
	for _, c := range []struct{ name, method, path, body, has string }{
		{"AnotherKind", "POST", pods, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"p"}}`, "wrong resource GroupVersionKind"},
		{"AnotherGroup", "POST", pods, `{"apiVersion":"apps/v1","kind":"Pod","metadata":{"name":"p"}}`, "wrong resource GroupVersionKind"},
		{"AnotherVersion", "PUT", p, `{"apiVersion":"v2","kind":"Pod","metadata":{"name":"p"}}`, "wrong resource GroupVersionKind"},
		{"NoKind", "POST", pods, `{"apiVersion":"v1","metadata":{"name":"p"}}`, "wrong resource GroupVersionKind"},
		{"NoVersion", "PUT", p, `{"kind":"Pod","metadata":{"name":"p"}}`, "wrong resource GroupVersionKind"},
		{"List", "POST", pods, `{"apiVersion":"v1","kind":"PodList","items":[]}`, "wrong resource GroupVersionKind"},
		{"ListToASubresource", "POST", p + "/eviction", `{"apiVersion":"v1","kind":"List","items":[]}`, "List"},
		{"StatusOfAnotherKind", "PUT", p + "/status", `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"p"}}`, "wrong resource GroupVersionKind"},
		{"AnotherName", "PUT", p, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"}}`, "metadata.name"},
		{"EmptyName", "PUT", p, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":""}}`, "metadata.name"},
		{"NullName", "PUT", p, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":null}}`, "metadata.name"},
		{"AnotherNameToASubresource", "POST", p + "/eviction", `{"metadata":{"name":"q"}}`, "metadata.name"},
		{"AnotherNamespace", "POST", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"b"}}`, "metadata.namespace"},
		{"NullNamespace", "POST", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":null}}`, "metadata.namespace"},
		{"NamespaceOfAnObjectOfTheCluster", "POST", "/kapi/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"x","namespace":"a"}}`,
			"not in namespaces"},
		{"TwoKinds", "POST", pods, `{"apiVersion":"v1","kind":"Pod","kind":"Secret","metadata":{}}`, "twice"},
		{"TwoKindsByEscapes", "POST", pods, `{"apiVersion":"v1","kind":"Pod","\u006bind":"Secret","metadata":{}}`, "twice"},
		{"TwoNames", "PUT", p, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","name":"q"}}`, "twice"},
		{"TwoMetadata", "PUT", p, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"metadata":{"name":"q"}}`, "twice"},
		{"KindInCapitals", "POST", pods, `{"apiVersion":"v1","kind":"Pod","KIND":"Secret"}`, "it is written kind"},
		{"KindByUnicode", "POST", pods, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"\u212aind\":\"Secret\"}", "it is written kind"},
		{"NameIsNoString", "PUT", p, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":7}}`, "must be a string"},
		{"MetadataIsNoObject", "PUT", p, `{"apiVersion":"v1","kind":"Pod","metadata":[]}`, "must be an object"},
		{"Array", "POST", pods, `[]`, "JSON object"},
		{"Empty", "POST", pods, ``, "empty"},
		{"Broken", "POST", pods, `{"apiVersion":"v1",`, "not valid JSON"},
		{"TooDeep", "POST", pods, `{"a":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `}`, "nested too deeply"}, // S56
		{"MergePatchOfTheKind", "PATCH", p, `{"kind":"Secret"}`, "wrong resource GroupVersionKind"},
		{"MergePatchRemovesTheKind", "PATCH", p, `{"kind":null}`, "wrong resource GroupVersionKind"},
		{"MergePatchOfTheName", "PATCH", p, `{"metadata":{"name":"q"}}`, "metadata.name"},
		{"MergePatchRemovesTheName", "PATCH", p, `{"metadata":{"name":null}}`, "metadata.name"},
		{"MergePatchOfTheNamespace", "PATCH", p, `{"metadata":{"namespace":"b"}}`, "metadata.namespace"},
		{"EmptyPatch", "PATCH", p, ``, "empty"},
		{"PatchIsAString", "PATCH", p, `"x"`, "JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.refused(t, http.StatusBadRequest, c.has, c.method, c.path, c.body)
			if len(w.seen) != 0 {
				t.Errorf("kube-apiserver was asked: %+v", w.seen)
			}
		})
	}
}

func TestWhatTheBodyDoesNotSayIsFilledIn(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ name, method, path, body, want string }{
		{"NamespaceOfACreate", "POST", "/kapi/v1/namespaces/a/pods", pod, podInA},
		{"NothingOfAFullOne", "POST", "/kapi/v1/namespaces/a/pods", " " + podInA + "\n", podInA},
		{"NoNameForAGeneratedOne", "POST", "/kapi/v1/namespaces/a/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-"}}`,
			`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"p-","namespace":"a"}}`},
		{"NameAndNamespaceOfAnUpdate", "PUT", "/kapi/v1/namespaces/a/pods/p", `{"apiVersion":"v1","kind":"Pod","spec":{"n":1.50}}`,
			`{"apiVersion":"v1","kind":"Pod","spec":{"n":1.50},"metadata":{"namespace":"a","name":"p"}}`},
		{"NothingOfAPatch", "PATCH", "/kapi/v1/namespaces/a/pods/p", `{"a": 1,"a":2}`, `{"a": 1,"a":2}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.do(t, c.method, c.path, c.body)
			if s := w.only(t); s.body != c.want {
				t.Errorf("sent %s, want %s", s.body, c.want)
			}
		})
	}
}

func TestContentTypes(t *testing.T) {
	w := newWorld(t)
	pods, p := "/kapi/v1/namespaces/a/pods", "/kapi/v1/namespaces/a/pods/p"
	yamlPod := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: a\n"
	jsonPatch := `[{"op":"add","path":"/spec","value":{}}]`
	for _, c := range []struct{ name, method, path, header, body, want, sent string }{
		{"None", "POST", pods, "", podInA, typeJSON, podInA},
		{"JSON", "POST", pods, "application/json; charset=utf-8", podInA, typeJSON, podInA},
		{"YAML", "POST", pods, typeYAML, yamlPod, typeJSON, podInA},
		{"YAMLUpdate", "PUT", p, typeYAML, "---\n" + yamlPod, typeJSON, podInA},
		{"NoneForAPatch", "PATCH", p, "", `{}`, typeMergePatch, `{}`},
		{"JSONForAPatch", "PATCH", p, typeJSON, `{}`, typeMergePatch, `{}`},
		{"MergePatch", "PATCH", p, typeMergePatch, `{}`, typeMergePatch, `{}`},
		{"StrategicPatch", "PATCH", p, typeStrategicPatch, `{"metadata":{"$patch":"replace"}}`, typeStrategicPatch, `{"metadata":{"$patch":"replace"}}`},
		{"JSONPatch", "PATCH", p, typeJSONPatch, jsonPatch, typeJSONPatch, jsonPatch},
		{"JSONPatchCalledMergePatch", "PATCH", p, typeMergePatch, jsonPatch, typeJSONPatch, jsonPatch}, // the console
		{"JSONPatchCalledJSON", "PATCH", p, typeJSON, jsonPatch, typeJSONPatch, jsonPatch},
		{"JSONPatchCalledStrategic", "PATCH", p, typeStrategicPatch, jsonPatch, typeJSONPatch, jsonPatch},
		{"ApplyYAML", "PATCH", p, typeApplyPatch, yamlPod, typeApplyPatch, podInA},
		{"ApplyJSON", "PATCH", p, typeApplyPatch, podInA, typeApplyPatch, podInA},
	} {
		t.Run(c.name, func(t *testing.T) {
			var headers []string
			if c.header != "" {
				headers = []string{"Content-Type: " + c.header}
			}
			if rec := w.do(t, c.method, c.path, c.body, headers...); rec.Code != http.StatusOK {
				t.Fatalf("%d %s", rec.Code, rec.Body)
			}
			if s := w.only(t); s.contentType != c.want || s.body != c.sent || s.accept != typeJSON {
				t.Errorf("sent %s: %s (accepting %s)", s.contentType, s.body, s.accept)
			}
		})
	}
	for _, c := range []struct {
		name         string
		code         int
		method, path string
		header, body string
		has          string
	}{
		{"Protobuf", 415, "POST", pods, "application/vnd.kubernetes.protobuf", "k8s\x00", "application/json"},
		{"CBOR", 415, "PUT", p, "application/cbor", "x", "application/json"},
		{"ApplyCBOR", 415, "PATCH", p, "application/apply-patch+cbor", "x", "apply-patch+yaml"},
		{"Form", 415, "POST", pods, "application/x-www-form-urlencoded", "a=b", "application/json"},
		{"PatchToACreate", 415, "POST", pods, typeMergePatch, "{}", "application/json"},
		{"Nonsense", 415, "POST", pods, "a/b/c", "{}", "Content-Type"},
		{"ObjectCalledJSONPatch", 400, "PATCH", p, typeJSONPatch, "{}", "array of operations"},
		{"SeveralDocuments", 400, "POST", pods, typeYAML, yamlPod + "---\n" + yamlPod, "several YAML documents"},
		{"KeyTwiceInYAML", 400, "POST", pods, typeYAML, "apiVersion: v1\nkind: Pod\nkind: Secret\n", "not valid YAML"},
		{"BrokenYAML", 400, "POST", pods, typeYAML, "a: [", "not valid YAML"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.refused(t, c.code, c.has, c.method, c.path, c.body, "Content-Type: "+c.header)
		})
	}
	w.refused(t, 415, "Content-Encoding", "POST", pods, podInA, "Content-Encoding: gzip")
	w.refused(t, 413, "bytes at most", "POST", pods, `{"a":"`+strings.Repeat("x", maxBody)+`"}`)
}

func TestAYAMLBombIsRefusedQuickly(t *testing.T) { // S56
	w := newWorld(t)
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), i-1)
	}
	start := time.Now()
	w.refused(t, 400, "not valid YAML", "POST", "/kapi/v1/namespaces/a/pods", b.String(), "Content-Type: application/yaml")
	if d := time.Since(start); d > 2*time.Minute { // unfolding it takes hours
		t.Errorf("took %v", d)
	}
	// A long text that a few aliases stand for: the values are few, and take gigabytes.
	long := "a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.TrimSuffix(strings.Repeat("*a,", 100_000), ",") + "]\n"
	w.refused(t, 400, "not valid YAML", "POST", "/kapi/v1/namespaces/a/pods", long, "Content-Type: application/yaml")
	w.refused(t, 400, "not valid YAML", "PATCH", "/kapi/v1/namespaces/a/pods/p?fieldManager=x", long, "Content-Type: "+typeApplyPatch)
}

func TestAPatchDoesNotChangeWhatThePathSays(t *testing.T) {
	w := newWorld(t)
	p := "/kapi/v1/namespaces/a/pods/p"
	for _, c := range []struct {
		name, operation string
		ok              bool
	}{
		{"Annotations", `{"op":"add","path":"/metadata/annotations","value":{}}`, true},
		{"Spec", `{"op":"replace","path":"/spec","value":{}}`, true},
		{"TestOfTheName", `{"op":"test","path":"/metadata/name","value":"p"}`, true},
		{"TestOfAll", `{"op":"test","path":"","value":{}}`, true},
		{"TheSameName", `{"op":"replace","path":"/metadata/name","value":"p"}`, true},
		{"TheSameKind", `{"op":"add","path":"/kind","value":"Pod"}`, true},
		{"CopyFromTheName", `{"op":"copy","from":"/metadata/name","path":"/metadata/annotations/a"}`, true},
		{"MoveOfAnAnnotation", `{"op":"move","from":"/metadata/annotations/a","path":"/metadata/annotations/b"}`, true},
		{"ALongerName", `{"op":"remove","path":"/metadata/nameless"}`, true},
		{"AnotherName", `{"op":"replace","path":"/metadata/name","value":"q"}`, false},
		{"NameRemoved", `{"op":"remove","path":"/metadata/name"}`, false},
		{"AnotherNamespace", `{"op":"replace","path":"/metadata/namespace","value":"b"}`, false},
		{"AnotherKind", `{"op":"replace","path":"/kind","value":"Secret"}`, false},
		{"AnotherVersion", `{"op":"replace","path":"/apiVersion","value":"v2"}`, false},
		{"BelowTheKind", `{"op":"add","path":"/kind/x","value":"Pod"}`, false},
		{"Metadata", `{"op":"replace","path":"/metadata","value":{"name":"q"}}`, false},
		{"All", `{"op":"replace","path":"","value":{}}`, false},
		{"MoveOfTheName", `{"op":"move","from":"/metadata/name","path":"/metadata/annotations/a"}`, false},
		{"MoveOfMetadata", `{"op":"move","from":"/metadata","path":"/spec"}`, false},
		{"CopyToTheName", `{"op":"copy","from":"/metadata/uid","path":"/metadata/name"}`, false},
		{"WithoutASlash", `{"op":"replace","path":"x/metadata/name","value":"q"}`, false},
		{"FromWithoutASlash", `{"op":"move","from":"x/metadata/name","path":"/spec"}`, false},
		{"TwoPaths", `{"op":"replace","path":"/spec","path":"/kind","value":"Secret"}`, false},
		{"TwoOps", `{"op":"test","op":"replace","path":"/kind","value":"Secret"}`, false},
		{"NoPath", `{"op":"remove"}`, false},
		{"NoOp", `{"path":"/spec"}`, false},
		{"PathIsNoString", `{"op":"remove","path":7}`, false},
		{"NoObject", `7`, false},
		{"EscapedPath", `{"op":"replace","path":"\/metadata\u002fname","value":"q"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `[{"op":"add","path":"/spec","value":{}},` + c.operation + `]`
			if !c.ok {
				w.refused(t, 400, "JSON patch", "PATCH", p, body, "Content-Type: "+typeMergePatch)
				return
			}
			if rec := w.do(t, "PATCH", p, body); rec.Code != http.StatusOK || w.only(t).body != body {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
}

func TestParameters(t *testing.T) { // S22
	w := newWorld(t)
	for _, c := range []struct{ name, method, query, body, want string }{
		{"Create", "POST", "dryRun=All&fieldManager=me&fieldValidation=Strict&force=true&x=1&limit=10", pod, "dryRun=All&fieldManager=me&fieldValidation=Strict"},
		{"Patch", "PATCH", "dryRun=All&force=true&pretty=true", "{}", "dryRun=All&force=true"},
		{"Delete", "DELETE", "dryRun=All&propagationPolicy=Foreground", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := "/kapi/v1/namespaces/a/pods"
			if c.method != "POST" {
				path += "/p"
			}
			if rec := w.do(t, c.method, path+"?"+c.query, c.body); rec.Code != http.StatusOK || w.only(t).query != c.want {
				t.Errorf("%d %s, sent %+v", rec.Code, rec.Body, w.seen)
			}
		})
	}
	for _, c := range []struct{ method, query, has string }{
		{"PUT", "dryrun=All", "written dryRun"}, {"PATCH", "Force=true", "written force"}, {"DELETE", "DryRun=All", "written dryRun"},
		{"DELETE", "gracePeriodSeconds=soon", "gracePeriodSeconds"}, {"DELETE", "orphanDependents=maybe", "orphanDependents"},
		{"DELETE", "propagationPolicy=Orphan&propagationPolicy=Foreground", "twice"},
	} {
		w.refused(t, 400, c.has, c.method, "/kapi/v1/namespaces/a/pods/p?"+c.query, map[bool]string{true: pod}[c.method != "DELETE"])
	}
}

func TestWhatIsNotThere(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name         string
		code         int
		method, path string
	}{
		{"UnknownKind", 404, "POST", "/kapi/v1/namespaces/a/unicorns"},
		{"UnknownGroup", 404, "PUT", "/kapis/none.example.com/v1/unicorns/u"},
		{"KindOfAnotherGroup", 404, "PUT", "/kapis/tenant.kubesphere.io/v1beta1/namespaces/a/pods/p"},
		{"ObjectsOfTheClusterInANamespace", 404, "PUT", "/kapis/tenant.kubesphere.io/v1beta1/namespaces/a/workspaces/w"},
		{"NoNamespace", 400, "PUT", "/kapi/v1/pods/p"},
		{"CreateWithoutANamespace", 400, "POST", "/kapi/v1/pods"},
		{"DeletionInAllNamespaces", 400, "DELETE", "/kapi/v1/pods"},
		{"CreateInAWorkspaceWithoutANamespace", 400, "POST", "/kapi/v1/workspaces/w-a/pods"},
		{"NamespaceOfAnotherWorkspace", 404, "POST", "/kapi/v1/workspaces/w-b/namespaces/a/pods"},
		{"UpdateInANamespaceOfAnotherWorkspace", 404, "PUT", "/kapi/v1/workspaces/w-b/namespaces/a/pods/p"},
		{"DeletionsInANamespaceOfAnotherWorkspace", 404, "DELETE", "/kapi/v1/workspaces/w-b/namespaces/a/pods"},
		{"NamespaceThatIsNotThere", 404, "DELETE", "/kapi/v1/workspaces/w-a/namespaces/none/pods/p"},
		{"WorkspaceByItsTemplate", 404, "PUT", "/kapi/v1/workspacetemplates/w-a/namespaces"},
		{"Terminal", 404, "POST", "/kapi/v1/namespaces/a/pods/p/exec"},
		{"Proxy", 404, "PUT", "/kapi/v1/namespaces/a/pods/p/proxy"},
		{"VerbThatTheKindLacks", 405, "POST", "/kapi/v1/namespaces/a/bindings"},
	} {
		t.Run(c.name, func(t *testing.T) { w.refused(t, c.code, "Failure", c.method, c.path, pod) })
	}
}

func TestAnswers(t *testing.T) {
	w := newWorld(t)
	p, pods := "/kapi/v1/namespaces/a/pods/p", "/kapi/v1/namespaces/a/pods"
	for _, c := range []struct {
		name         string
		code         int // kube-apiserver's
		body         string
		method, path string
		want         int
		has          string
	}{
		{"Created", 201, `{"made":"it","metadata":{"managedFields":[]}}`, "POST", pods, 200, `{"made":"it","metadata":{"managedFields":[]}}`},
		{"Accepted", 202, `{"kind":"Pod"}`, "PUT", p, 200, `{"kind":"Pod"}`},
		{"Forbidden", 403, `{"kind":"Status","code":403,"message":"bob may not"}`, "PUT", p, 403, "bob may not"},
		{"Conflict", 409, `{"kind":"Status","code":409}`, "PUT", p, 409, "409"},
		{"Invalid", 422, `{"kind":"Status","code":422}`, "PUT", p, 422, "422"},
		{"TextIsMadeAStatus", 404, "404 page not found", "PUT", p, 404, `"kind":"Status"`},
		{"OurOwnCredentials", 401, `{"kind":"Status","code":401}`, "PUT", p, 502, "this server's credentials"},
		{"Redirect", 302, `{}`, "PUT", p, 502, "302"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w.answer = func(seen) (int, string) { return c.code, c.body }
			rec := w.do(t, c.method, c.path, pod)
			if rec.Code != c.want || !strings.Contains(rec.Body.String(), c.has) || rec.Header().Get("X-Content-Type-Options") != "nosniff" ||
				rec.Header().Get("Content-Type") != "application/json" || rec.Header().Get("WWW-Authenticate") != "" {
				t.Errorf("%d %s %v", rec.Code, rec.Body, rec.Header())
			}
		})
	}
}

func TestSubresourcesAreReadLive(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct{ name, path, accept, to string }{
		{"Log", "/kapi/v1/namespaces/a/pods/p/log?follow=true&container=c", "text/plain", "/api/v1/namespaces/a/pods/p/log"},
		{"Status", "/kapi/v1/namespaces/a/pods/p/status", "application/json", "/api/v1/namespaces/a/pods/p/status"},
		{"OfANamespace", "/kapi/v1/namespaces/a/status", "application/json", "/api/v1/namespaces/a/status"},
		{"OfANamespaceInItsWorkspace", "/kapi/v1/workspaces/w-a/namespaces/a/status", "application/json", "/api/v1/namespaces/a/status"},
		{"InANamespaceOfAWorkspace", "/kapi/v1/workspaces/w-a/namespaces/a/pods/p/log", "*/*", "/api/v1/namespaces/a/pods/p/log"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := w.do(t, "GET", c.path, "", "Accept: "+c.accept)
			if rec.Code != http.StatusOK || rec.Body.String() != "passed on" || len(w.seen) != 1 || w.seen[0].path != c.to || !w.seen[0].info.IsKubernetes {
				t.Fatalf("%d %s %+v", rec.Code, rec.Body, w.seen)
			}
			if _, query, _ := strings.Cut(c.path, "?"); w.seen[0].query != query {
				t.Errorf("the query became %q", w.seen[0].query)
			}
		})
	}
	for _, path := range []string{
		"/kapi/v1/namespaces/a/pods/p/exec", "/kapi/v1/namespaces/a/pods/p/proxy", "/kapi/v1/workspaces/w-b/namespaces/a/status",
		"/kapi/v1/workspaces/w-b/namespaces/a/pods/p/log", "/kapi/v1/namespaces/a/unicorns/u/status",
	} {
		w.refused(t, 404, "Failure", "GET", path, "")
		if len(w.seen) != 0 {
			t.Errorf("%s was passed on", path)
		}
	}
}

// The paths of these lists look like those of sub-resources, whose routes answer with anything.
func TestAListThatTheClientDoesNotTakeIsNotAcceptable(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/kapi/v1/namespaces/a/pods", "/kapi/v1/workspaces/w-a/pods", "/kapi/v1/watch/pods/p1",
		"/kapi/v1/workspaces/w-a/namespaces/a/pods"} {
		w.refused(t, 406, "", "GET", path, "", "Accept: application/yaml")
		if len(w.seen) != 0 {
			t.Errorf("%s was passed on", path)
		}
	}
}

func FuzzBodyIsCheckedAsItIsSent(f *testing.F) {
	for _, s := range []string{`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a"}}`,
		`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`, `{"metadata":{"labels":{"kubesphere.io/workspace":"w"}}}`, `{"metadata":null}`, `{"a":{"b":[1,2]}}`,
		`{"\u006b":1}`, `{}`, `[]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !rawjson.Valid(text, maxDepth) || !strings.HasPrefix(text, "{") {
			return
		}
		o, err := inspect(text)
		if err != nil {
			return
		}
		o.put("n", "metadata", "name")
		o.put("w", "metadata", "labels", workspaceLabel)
		if !rawjson.Valid(o.text, 2*maxDepth) {
			t.Fatalf("%s became %s", text, o.text)
		}
		again, err := inspect(o.text)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, o.text, err)
		}
		if again.name.value != "n" || again.workspace.value != "w" || again.kind != o.kind || again.apiVersion != o.apiVersion || again.namespace != o.namespace {
			t.Errorf("%s became %s", text, o.text)
		}
	})
}
