package web_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"kapis.dev/ks-apiserver/pkg/web"
)

const maxOptions = 16 << 10 // bytes of DeleteOptions that are read

func TestADryRunThatIsNotSupportedWritesNothing(t *testing.T) { // S22
	for name, c := range map[string]struct {
		method, query, body string
		done                bool
	}{
		"NoDryRun":           {http.MethodPut, "", `{"dryRun":["All"]}`, true}, // a body of its own
		"OtherParameters":    {http.MethodPut, "?pretty=true", "", true},
		"ByTheQuery":         {http.MethodPut, "?dryRun=All", "", false},
		"WithoutAValue":      {http.MethodPost, "?dryRun", "", false},
		"InOtherLetters":     {http.MethodPost, "?dryrun=All", "", false},
		"ADeletion":          {http.MethodDelete, "", "", true},
		"WithOptions":        {http.MethodDelete, "", `{"kind":"DeleteOptions","dryRun":[]}`, true},
		"ADeletionByTheBody": {http.MethodDelete, "", `{"kind":"DeleteOptions","dryRun":["All"]}`, false},
		"MisspeltOptions":    {http.MethodDelete, "", `{"dryrun":["All"]}`, false},
		"NoOptions":          {http.MethodDelete, "", `[]`, false},
		"EndlessOptions":     {http.MethodDelete, "", `{"kind":"` + strings.Repeat("x", maxOptions) + `"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := httptest.NewRequestWithContext(t.Context(), c.method, "/"+c.query, strings.NewReader(c.body))
			done := false
			_, err := web.RefuseDryRun(func(r *restful.Request) (any, error) {
				done = true
				if raw, err := io.ReadAll(r.Request.Body); err != nil || string(raw) != c.body {
					t.Errorf("the body is %q, %v", raw, err)
				}
				return nil, nil
			})(restful.NewRequest(in))
			if done != c.done || apierrors.IsBadRequest(err) == c.done {
				t.Errorf("done: %t, %v", done, err)
			}
		})
	}
}
