package proxy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/coder/websocket"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/redaction"
)

const (
	usersPath = "/apis/iam.kubesphere.io/v1beta1/users"
	applied   = `"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{\"password\":\"canary\"}}\n"`
	clean     = `"kubectl.kubernetes.io/last-applied-configuration":"{\"spec\":{}}"`
	secretOf  = `{"kind":"User","metadata":{"name":"a","annotations":{` + applied + `}},"spec":{"email":"e","password":"canary"}}`
	shownOf   = `{"kind":"User","metadata":{"name":"a","annotations":{` + clean + `}},"spec":{"email":"e"}}`
	metaOf    = `{"kind":"PartialObjectMetadata","metadata":{"name":"a","annotations":{` + applied + `}}}`
	metaShown = `{"kind":"PartialObjectMetadata","metadata":{"name":"a","annotations":{` + clean + `}}}`
)

func usersRedaction() *redaction.Redaction {
	return redaction.Of(schema.GroupResource{Group: "iam.kubesphere.io", Resource: "users"})
}

// documents are answers, and what the client gets of them.
var documents = map[string]struct{ in, out string }{
	"Object": {secretOf, shownOf},
	"List": {
		`{"kind":"UserList","metadata":{"resourceVersion":"5"},"items":[` + secretOf + `, ` + secretOf + `]}` + "\n",
		`{"kind":"UserList","metadata":{"resourceVersion":"5"},"items":[` + shownOf + `,` + shownOf + `]}`,
	},
	"ListThenMore": {
		`{"items":[` + secretOf + `],"metadata":{"continue":"x"},"spec":{"password":"canary"}}`,
		`{"items":[` + shownOf + `],"metadata":{"continue":"x"},"spec":{}}`,
	},
	"EmptyList":   {`{"kind":"UserList","items":[]}`, `{"kind":"UserList","items":[]}`},
	"NoList":      {`{"kind":"UserList","items":null}`, `{"kind":"UserList","items":null}`},
	"EmptyObject": {`{ }`, `{}`},
	"OnlySecret":  {`{"spec":{"password":"canary"}}`, `{"spec":{}}`},
	"Status":      {`{"kind":"Status","status":"Success","details":{"name":"a"}}`, `{"kind":"Status","status":"Success","details":{"name":"a"}}`},
	"Table": {
		`{"kind":"Table","columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["a",{"x":1}],"object":` + secretOf + `},{"cells":[],"object":null}]}`,
		`{"kind":"Table","columnDefinitions":[{"name":"Name"}],"rows":[{"cells":["a",{"x":1}],"object":` + shownOf + `},{"cells":[],"object":null}]}`,
	},
	"TableMetadata": {`{"rows":[{"object":` + metaOf + `}]}`, `{"rows":[{"object":` + metaShown + `}]}`},
	"TwoLists":      {`{"items":[` + secretOf + `],"rows":[{"object":` + secretOf + `}]}`, `{"items":[` + shownOf + `],"rows":[{"object":` + shownOf + `}]}`},
	"EscapedName":   {`{"\u0069tems":[` + secretOf + `]}`, `{"items":[` + shownOf + `]}`},
}

func readDocument(r io.Reader) (string, error) {
	d := &document{in: rawjson.NewReader(r, maxValue), redaction: usersRedaction()}
	out, err := io.ReadAll(&redacted{Closer: io.NopCloser(nil), next: d.batch})
	return string(out), err
}

// S3: no answer has a hidden field, whatever its shape and however it arrives, and nothing else is lost.
func TestDocumentsLoseWhatIsHiddenAndNothingElse(t *testing.T) {
	for claim, tc := range documents {
		t.Run(claim, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(tc.in), iotest.OneByteReader(strings.NewReader(tc.in))} {
				got, err := readDocument(r)
				if err != nil || !same(t, got, tc.out) {
					t.Errorf("%v\n%s, want\n%s", err, got, tc.out)
				}
			}
		})
	}
}

func same(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return reflect.DeepEqual(x, y)
}

// Input that can't be parsed does not pass, and its end is never a clean one.
func TestBrokenDocumentsEndWithAnError(t *testing.T) {
	for claim, in := range map[string]string{
		"Nothing": "", "Array": `[` + secretOf + `]`, "Text": `"canary"`, "Cut": secretOf[:len(secretOf)-3], "CutList": `{"items":[` + secretOf, "TwoObjects": "{}" +
			secretOf,
		"NoColon": `{"spec" {"password":"canary"}}`, "ElementThatIsNoObject": `{"items":["canary"]}`, "RowThatIsNoObject": `{"rows":[{"object":"canary"}]}`,
		"Broken": `{"spec":{"password":canary}}`,
	} {
		t.Run(claim, func(t *testing.T) {
			if got, err := readDocument(strings.NewReader(in)); err == nil || strings.Contains(got, "canary") {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func FuzzDocument(f *testing.F) {
	for _, d := range documents {
		f.Add(d.in)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out, err := readDocument(strings.NewReader(in))
		if err != nil {
			return
		}
		if !rawjson.Valid(out, 10_000) {
			t.Fatalf("%q became %q", in, out)
		}
		again, err := readDocument(strings.NewReader(out))
		if err != nil || !same(t, again, out) {
			t.Fatalf("%q became %q, and then %q (%v)", in, out, again, err)
		}
	})
}

// answers is a backend whose answers have a type, and a body that ends with the request if it is a watch.
func answers(code int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func ask(t *testing.T, method, url string, headers ...string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ": ")
		req.Header.Set(k, v)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res, string(body), err
}

// S3: every request for a kind with secrets, and the answers to writes.
func TestAnswersAboutKindsWithSecretsAreRedacted(t *testing.T) {
	for claim, tc := range map[string]struct{ method, path, in, out string }{
		"Get":          {"GET", usersPath + "/a", secretOf, shownOf},
		"List":         {"GET", usersPath, documents["List"].in, documents["List"].out},
		"OlderVersion": {"GET", "/apis/iam.kubesphere.io/v1alpha2/users/a", secretOf, shownOf},
		"Status":       {"GET", usersPath + "/a/status", secretOf, shownOf},
		"Create":       {"POST", usersPath, secretOf, shownOf},
		"Patch":        {"PATCH", usersPath + "/a", secretOf, shownOf},
		"Update":       {"PUT", usersPath + "/a", secretOf, shownOf},
		"Delete":       {"DELETE", usersPath + "/a", secretOf, shownOf},
		"DeleteMany":   {"DELETE", usersPath, documents["List"].in, documents["List"].out},
		"Watch":        {"GET", usersPath + "?watch=true", `{"type":"ADDED","object":` + secretOf + "}\n", `{"type":"ADDED","object":` + shownOf + `}`},
		"WatchByPath": {"GET", "/apis/iam.kubesphere.io/v1beta1/watch/users/a", `{"type":"ADDED","object":` + secretOf + "}\n", `{"type":"ADDED","object":` +
			shownOf + `}`},
		"WatchOfTables": {"GET", usersPath + "?watch=1", `{"type":"ADDED","object":` + documents["Table"].in + "}\n", `{"type":"ADDED","object":` +
			documents["Table"].out + `}`},
		"Cluster": {"GET", "/apis/cluster.kubesphere.io/v1alpha1/clusters/c",
			`{"spec":{"connection":{"type":"direct","kubeconfig":"canary","token":"canary"}}}`, `{"spec":{"connection":{"type":"direct"}}}`},
		"APIKey": {"GET", "/apis/session.kapis.dev/v1alpha1/apikeys/k", `{"spec":{"hash":"canary"}}`, `{"spec":{}}`},
	} {
		t.Run(claim, func(t *testing.T) {
			b, srv := proxied(t, answers(http.StatusOK, "application/json", tc.in))
			res, got, err := ask(
				t,
				tc.method,
				srv.URL+tc.path,
				"Accept: application/vnd.kubernetes.protobuf;q=0.9, application/json;as=Table;v=v1;g=meta.k8s.io, application/yaml",
				"Accept-Encoding: gzip",
			)
			if err != nil || res.StatusCode != http.StatusOK || !same(t, got, tc.out) {
				t.Errorf("%d %v\n%s, want\n%s", res.StatusCode, err, got, tc.out)
			}
			seen := b.only(t).Header
			if a := seen.Get("Accept"); a != "application/json;as=Table;v=v1;g=meta.k8s.io,application/json" || seen.Get("Accept-Encoding") != "identity" {
				t.Errorf("kube-apiserver was asked for %q, %q", a, seen.Get("Accept-Encoding"))
			}
		})
	}
}

func TestAHeadOfAKindWithSecretsHasNoBodyAndNoLength(t *testing.T) {
	_, srv := proxied(t, answers(http.StatusOK, "application/json", secretOf))
	res, body, err := ask(t, http.MethodHead, srv.URL+usersPath+"/a")
	if err != nil || res.StatusCode != http.StatusOK || body != "" || res.Header.Get("Content-Length") != "" {
		t.Errorf("%d %v %q %v", res.StatusCode, err, body, res.Header)
	}
}

// S3: an answer that can't be parsed does not pass; refusals do.
func TestAnswersThatCannotBeReadDoNotPass(t *testing.T) {
	for claim, tc := range map[string]struct {
		code, want int
		typ, body  string
	}{
		"Protobuf": {200, 502, "application/vnd.kubernetes.protobuf", "canary"},
		"YAML":     {200, 502, "application/yaml", "spec: {password: canary}"},
		"NoType":   {200, 502, "", `canary`},
		"Refusal":  {403, 403, "application/json", `{"kind":"Status","code":403}`},
		"Text":     {404, 404, "text/plain", "404 page not found"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, srv := proxied(t, answers(tc.code, tc.typ, tc.body))
			for _, path := range []string{usersPath, usersPath + "/a/scale"} {
				res, body, err := ask(t, http.MethodGet, srv.URL+path)
				if err != nil || res.StatusCode != tc.want || strings.Contains(body, "canary") {
					t.Errorf("%s: %d %v %s", path, res.StatusCode, err, body)
				}
			}
		})
	}
	_, srv := proxied(t, answers(http.StatusOK, "application/json", `{"kind":"UserList","items":[`+secretOf))
	res, err := http.Get(srv.URL + usersPath) //nolint:noctx // the server ends with the test
	if err == nil {
		_, err = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
	}
	if err == nil {
		t.Error("an answer that breaks off ends as if it was whole")
	}
}

func TestOtherAnswersPassByteForByte(t *testing.T) {
	const odd = "{ \"items\" : [ {\"spec\":{\"password\":\"kept\"}} ] }\n\n"
	for _, path := range []string{"/api/v1/pods", "/apis/iam.kubesphere.io/v1beta1/globalroles", "/apis/example.com/v1/users", "/apis/iam.kubesphere.io/v1beta1"} {
		b, srv := proxied(t, answers(http.StatusOK, "application/yaml", odd))
		res, body, err := ask(t, http.MethodGet, srv.URL+path, "Accept: application/yaml", "Accept-Encoding: br")
		if err != nil || body != odd || res.Header.Get("Content-Length") != fmt.Sprint(len(odd)) {
			t.Errorf("%s: %v %q %v", path, err, body, res.Header)
		}
		if h := b.only(t).Header; h.Get("Accept") != "application/yaml" || h.Get("Accept-Encoding") != "br" {
			t.Errorf("%s: asked with %v", path, h)
		}
	}
}

// An event of a watch passes as soon as it arrives, and not with the next one.
func TestEventsOfARedactedWatchPassAtOnce(t *testing.T) {
	next := make(chan struct{})
	_, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json;stream=watch")
		for range 2 {
			_, _ = io.WriteString(w, `{"type":"MODIFIED","object":`+secretOf+"}\n")
			w.(http.Flusher).Flush()
			select {
			case <-next:
			case <-r.Context().Done():
				return
			}
		}
	})
	res, err := http.Get(srv.URL + usersPath + "?watch=true") //nolint:noctx // the server ends with the test
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	in := rawjson.NewReader(res.Body, maxValue)
	for range 2 {
		frame, err := in.Line()
		if err != nil || !same(t, frame, `{"type":"MODIFIED","object":`+shownOf+`}`) {
			t.Fatalf("%v %s", err, frame)
		}
		next <- struct{}{}
	}
	if _, err := in.Line(); !errors.Is(err, io.EOF) {
		t.Errorf("the end is %v", err)
	}
}

// S3: the WebSocket by which pages watch users shows no more than any other watch, and kube-apiserver sees an ordinary one.
func TestWatchesByWebSocketAreRedacted(t *testing.T) {
	b, srv := proxied(
		t,
		answers(http.StatusOK, "application/json", `{"type":"ADDED","object":`+secretOf+"}\n"+`{"type":"BOOKMARK","object":{"kind":"User","metadata":{}}}`+"\n"),
	)
	conn, _, err := websocket.Dial(
		t.Context(),
		srv.URL+"/apis/iam.kubesphere.io/v1beta1/watch/users",
		&websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {"token=canary"}, "Impersonate-User": {"admin"}}},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	for _, want := range []string{`{"type":"ADDED","object":` + shownOf + `}`, `{"type":"BOOKMARK","object":{"kind":"User","metadata":{}}}`} {
		typ, got, err := conn.Read(t.Context())
		if err != nil || typ != websocket.MessageText || !same(t, string(got), want) {
			t.Fatalf("%v %v %s", err, typ, got)
		}
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("the end: %v", err)
	}
	h := b.only(t).Header
	if h.Get("Upgrade")+h.Get("Connection")+h.Get("Cookie")+h.Get("Sec-Websocket-Key") != "" || h.Get(impersonateUser) != "bob" ||
		!reflect.DeepEqual(h[impersonateGroup], []string{"dev", "system:authenticated", "kapis:global:viewer"}) {
		t.Errorf("kube-apiserver saw %v", h)
	}
}

func TestARefusedWatchByWebSocketIsAStatus(t *testing.T) {
	for claim, tc := range map[string]struct {
		code, want int
		typ, body  string
	}{
		"Forbidden": {403, 403, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`},
		"NoStatus":  {500, 502, "text/plain", "canary"},
		"OurOwn":    {401, 502, "application/json", `{"kind":"Status","code":401}`},
		"NoJSON":    {200, 502, "text/plain", "canary"},
	} {
		t.Run(claim, func(t *testing.T) {
			_, srv := proxied(t, answers(tc.code, tc.typ, tc.body))
			_, res, err := websocket.Dial(t.Context(), srv.URL+usersPath+"?watch=true", nil)
			if err == nil || res == nil || res.StatusCode != tc.want {
				t.Errorf("%v %v", err, res)
			}
		})
	}
	b, srv := proxied(t, answers(http.StatusOK, "application/json", secretOf))
	for _, tc := range [][2]string{{usersPath + "/a", "websocket"}, {usersPath + "?watch=true", "SPDY/3.1"}} {
		res, body, err := ask(t, http.MethodGet, srv.URL+tc[0], "Connection: Upgrade", "Upgrade: "+tc[1])
		if err != nil || res.StatusCode != http.StatusBadRequest || strings.Contains(body, "canary") {
			t.Errorf("%v: %d %s", tc, res.StatusCode, body)
		}
	}
	if n := len(b.requests()); n != 0 {
		t.Errorf("the backend saw %d of them", n)
	}
}
