package credential_test

import (
	"context"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/iam"
	"kapis.dev/ks-apiserver/pkg/iam/session"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/credential"
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
	write := credential.WritePassword(caller.Client{May: may, Kube: sentAs(func(r *http.Request) { extra = request.UserFrom(r.Context()).GetExtra() })})
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

// D12: only a write of one's own User names the session.
func TestD12OnlyAWriteOfTheOwnUserNamesItsSession(t *testing.T) {
	in := &session.Session{Name: "a-session"}
	ann := &user.DefaultInfo{Name: "ann"}
	own := request.Info{Verb: "patch", APIGroup: "iam.kubesphere.io", Resource: "users", Name: "ann"}
	with := func(edit func(*request.Info)) *request.Info {
		i := own
		edit(&i)
		return &i
	}
	for name, c := range map[string]struct {
		info *request.Info
		by   user.Info
		want bool
	}{
		"a patch":              {info: &own, by: session.WithSession(ann, in), want: true},
		"an update":            {info: with(func(i *request.Info) { i.Verb = "update" }), by: session.WithSession(ann, in), want: true},
		"without a session":    {info: &own, by: ann},
		"another user":         {info: with(func(i *request.Info) { i.Name = "bob" }), by: session.WithSession(ann, in)},
		"all users":            {info: with(func(i *request.Info) { i.Name = "" }), by: session.WithSession(&user.DefaultInfo{}, in), want: false},
		"a subresource":        {info: with(func(i *request.Info) { i.Subresource = "status" }), by: session.WithSession(ann, in)},
		"another kind":         {info: with(func(i *request.Info) { i.Resource = "groups" }), by: session.WithSession(ann, in)},
		"a kind of that name":  {info: with(func(i *request.Info) { i.APIGroup = "example.com" }), by: session.WithSession(ann, in)},
		"a read of one's User": {info: with(func(i *request.Info) { i.Verb = "get" }), by: session.WithSession(ann, in)},
	} {
		t.Run(name, func(t *testing.T) {
			got := credential.SessionOfOwnUser(c.info, c.by)
			var want map[string][]string
			if c.want {
				want = map[string][]string{iamv1beta1.ExtraSession: {in.Fingerprint()}}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}
