package apiserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/request"
)

type sentAs func(*http.Request)

func (f sentAs) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}")), Request: r}, nil
}

// S6: kube-apiserver lets a user change their own password only if this server says that they have proven the current one.
func TestAnOwnPasswordIsWrittenAsProven(t *testing.T) {
	var extra map[string][]string
	may := authz.Func(func(context.Context, user.Info, *request.Info) (authz.Decision, error) {
		return authz.Allow("", ""), nil
	})
	write := writePassword(caller.Client{May: may, Kube: sentAs(func(r *http.Request) { extra = request.UserFrom(r.Context()).GetExtra() })})
	by := &user.DefaultInfo{Name: "ann", Extra: map[string][]string{"a": {"b"}}}
	for name, want := range map[string][]string{"ann": {iam.ProvenPassword}, "bob": nil} {
		if err := write(t.Context(), by, &iam.User{Name: name, UID: "1"}, "hash"); err != nil {
			t.Fatal(err)
		}
		if got := extra[iam.ExtraProven]; !slices.Equal(got, want) || extra["a"][0] != "b" {
			t.Errorf("%s: %v", name, extra)
		}
	}
	if len(by.Extra) != 1 {
		t.Errorf("who asked is changed: %v", by.Extra)
	}
}
