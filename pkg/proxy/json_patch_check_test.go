package proxy

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"kapis.dev/ks-apiserver/pkg/request"
)

// S3: a redacted field is not copied to where it is shown, and can't be guessed.
func TestAPatchTakesNothingFromWhatIsHidden(t *testing.T) {
	const kept = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration"
	for claim, c := range map[string]struct {
		body string
		code int
	}{
		"Add":                 {`[{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]`, 200},
		"Replace":             {` [{"op":"replace","path":"/spec/password","value":"x"}]`, 200},
		"CopyElsewhere":       {`[{"op":"copy","from":"/spec/email","path":"/metadata/annotations/x"}]`, 200},
		"TestOfTheVersion":    {`[{"op":"test","path":"/metadata/resourceVersion","value":"5"}]`, 200},
		"MergePatch":          {`{"spec":{"password":"x"}}`, 200},
		"NoOperations":        {`[]`, 200},
		"Copy":                {`[{"op":"add","path":"/a","value":1},{"op":"copy","from":"/spec/password","path":"/metadata/annotations/x"}]`, 400},
		"CopyOfTheWhole":      {`[{"op":"copy","from":"","path":"/x"}]`, 400},
		"CopyOfTheSpec":       {`[{"op":"copy","from":"/spec","path":"/status"}]`, 400},
		"Move":                {`[{"op":"move","from":"/spec/password","path":"/spec/description"}]`, 400},
		"Test":                {`[{"op":"test","path":"/spec/password","value":"$2a$"}]`, 400},
		"CopyOfWhatWasGiven":  {`[{"op":"copy","from":"` + kept + `","path":"/metadata/annotations/x"}]`, 400},
		"TestOfAnnotations":   {`[{"op":"test","path":"/metadata/annotations","value":{}}]`, 400},
		"EscapedCharacters":   {`[{"op":"copy","fro\u006d":"/spec/p\u0061ssword","path":"/x"}]`, 400},
		"AnotherBeginning":    {`[{"op":"copy","from":"x/spec/password","path":"/x"}]`, 400},
		"FromTwice":           {`[{"op":"copy","from":"/spec/password","from":"/spec/email","path":"/x"}]`, 400},
		"OperationTwice":      {`[{"op":"add","op":"test","path":"/spec/password","value":"x"}]`, 400},
		"OperationOfNoText":   {`[{"op":["copy"],"from":"/spec/password","path":"/x"}]`, 400},
		"OperationsOfNothing": {`[null]`, 400},
		"NoJSON":              {`[{"op":"copy","from":"/spec/password"`, 400},
		"TooLong":             {`["` + strings.Repeat("x", maxPatch) + `"]`, 413},
	} {
		t.Run(claim, func(t *testing.T) {
			var got string
			b, srv := proxied(t, func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				got = string(raw)
				answers(http.StatusOK, "application/json", secretOf)(w, r)
			})
			for _, mediaType := range []string{"application/json-patch+json", "application/json-patch+json;charset=utf-8"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, srv.URL+usersPath+"/a", strings.NewReader(c.body))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Content-Type", mediaType)
				res, err := http.DefaultTransport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = res.Body.Close()
				if res.StatusCode != c.code || c.code == http.StatusOK && got != c.body {
					t.Errorf("%s: %d, sent %q", mediaType, res.StatusCode, got)
				}
			}
			if c.code != http.StatusOK && len(b.requests()) != 0 {
				t.Error("it was sent")
			}
		})
	}
}

// FuzzCheckPatch: after a patch that passes, a user shows nothing that the patch did not have in it.
func FuzzCheckPatch(f *testing.F) {
	for _, op := range []string{
		`{"op":"copy","from":"/spec/password","path":"/x"}`, `{"op":"test","path":"","value":{}},{"op":"add","path":"/a","value":[]}`,
		`{"op":"move","from":"/spec/email","path":"/spec/password"}`,
		`{"op":"copy","from":"/metadata","path":"/status"}`, `{"op":"copy","from":"/spec/~password","path":"/~x"}`,
		`{"op":"copy","from":"//spec/password","path":"/x"}`,
	} {
		f.Add(op)
	}
	info := &request.Info{APIGroup: "iam.kubesphere.io", Resource: "users"}
	f.Fuzz(func(t *testing.T, op string) {
		text := "[" + op + "]"
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, "/", strings.NewReader(text))
		if checkPatch(r, info) != nil || strings.Contains(op, "can") {
			return
		}
		patch, err := jsonpatch.DecodePatch([]byte(text))
		if err != nil {
			return
		}
		out, err := patch.Apply([]byte(secretOf))
		if err != nil || len(out) == 0 || out[0] != '{' {
			return
		}
		if shown, err := usersRedaction().Append(nil, string(out)); err == nil && strings.Contains(string(shown), "canary") {
			t.Errorf("%s shows %s", text, shown)
		}
	})
}
