package dynamic

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/admission"
	"kapis.dev/ks-apiserver/pkg/request"
)

// recorder refuses everything, and records it.
type recorder struct{ asked []string }

func (*recorder) Guards(schema.GroupResource) bool { return true }

func (g *recorder) Check(_ context.Context, w *admission.Write) error {
	g.asked = append(g.asked, w.By.GetName()+" "+w.Verb+" "+w.GVR.Resource+" "+w.Name+" "+string(w.Old)+string(w.Object))
	return errors.New("refused")
}

// S6, F17: the escalation check is made of what is passed on to kube-apiserver where members bind the name, of every form in which a name can be sent, and
// nothing else is refused or read.
func TestNamesInMembersAreCheckedOnTheWayToKubeAPIServer(t *testing.T) {
	const users, groups = "/apis/iam.kubesphere.io/v1beta1/users", "/apis/iam.kubesphere.io/v1beta1/groups"
	const changed = `{}{"spec":{"password":"changed"}}`
	for _, x := range []struct {
		name, method, path, kind, body string
		asked                          string
		code                           int // 0 is passed on, with the body
	}{
		{"a user", "POST", users, "", `{"metadata":{"name":"bob"}}`, "eve create users bob {}", 500},
		{"another user", "POST", users, "", `{"metadata":{"name":"bobby"}}`, "", 0},
		{"a user of a group's name", "POST", users, "", `{"metadata":{"name":"sre"}}`, "", 0},
		{"a user without a name", "POST", users, "", `{"metadata":{"generateName":"bob"}}`, "", 0},
		{"a group", "POST", groups, "application/json", `{"metadata":{"name":"sre"}}`, "eve create groups sre {}", 500},
		{"a group of an older version", "POST", "/apis/iam.kubesphere.io/v1alpha2/groups", "", `{"metadata":{"name":"sre"}}`, "eve create groups sre {}", 500},
		{"a group in YAML", "POST", groups, "application/yaml", "metadata:\n  name: sre\n", "eve create groups sre {}", 500},
		{"another group in YAML", "POST", groups, "application/yaml", "metadata:\n  name: x\n", "", 0},
		{"a name that is there twice", "POST", groups, "", `{"metadata":{"name":"x","name":"sre"}}`, "", 400},
		{"a name that is spelt otherwise", "POST", groups, "", `{"metadata":{"Name":"x","name":"sre"}}`, "", 400},
		{"what is no object", "POST", groups, "", `[]`, "", 400},
		{"another form", "POST", groups, "application/cbor", `{"metadata":{"name":"sre"}}`, "", 415},
		{"a group that is applied", "PATCH", groups + "/sre", "application/apply-patch+yaml", `{}`, "eve create groups sre {}", 500},
		{"another group that is applied", "PATCH", groups + "/x", "application/apply-patch+yaml", `{}`, "", 0},
		{"a group that is there", "PUT", groups + "/sre", "", `{}`, "", 0},
		{"a user who is changed", "PUT", users + "/bob", "", `{}`, "eve update users bob " + changed, 500},
		{"a user who is patched", "PATCH", users + "/bob", "application/merge-patch+json", `{}`, "eve update users bob " + changed, 500},
		{"a user who is let in", "PATCH", users + "/bob/status", "application/merge-patch+json", `{}`, "eve update users bob " + changed, 500},
		{"a user's other parts", "PUT", users + "/bob/x", "", `{}`, "", 0},
		{"a user who is deleted", "DELETE", users + "/bob", "", "", "", 0},
		{"a user who is read", "GET", users + "/bob", "", "", "", 0},
		{"a binding", "POST", "/apis/iam.kubesphere.io/v1beta1/groupbindings", "", `[`, "", 0},
		{"a kind of another group", "POST", "/apis/user.openshift.io/v1/groups", "", `[`, "", 0},
	} {
		g, passed := &recorder{}, ""
		n := &NamesInMembers{
			Guard: g, Users: func(name string) bool { return name == "bob" }, Groups: func(name string) bool { return name == "sre" },
			Kube: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				raw, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				passed = "passed on: " + string(raw)
			}),
		}
		r := httptest.NewRequestWithContext(t.Context(), x.method, x.path, strings.NewReader(x.body))
		if x.kind != "" {
			r.Header.Set("Content-Type", x.kind)
		}
		info, err := request.Parse(r)
		if err != nil {
			t.Fatal(err)
		}
		ctx := request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "eve"})
		w := httptest.NewRecorder()
		n.ServeHTTP(w, r.WithContext(ctx))
		if got := strings.Join(g.asked, ", "); got != x.asked {
			t.Errorf("%s: it is checked as %q, want %q", x.name, got, x.asked)
		}
		if want := x.body; x.code == 0 {
			if x.kind == "application/yaml" {
				want = `{"metadata":{"name":"x"}}`
			}
			if passed != "passed on: "+want {
				t.Errorf("%s: %d, %q", x.name, w.Code, passed)
			}
		} else if w.Code != x.code || passed != "" {
			t.Errorf("%s: %d %s, and %q; want %d", x.name, w.Code, w.Body, passed, x.code)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, groups, strings.NewReader("["))
	info, err := request.Parse(r)
	if err != nil {
		t.Fatal(err)
	}
	alone := &NamesInMembers{Guard: &recorder{}} // a server that is no hub
	if err := alone.check(r.WithContext(request.WithUser(request.WithInfo(r.Context(), info), &user.DefaultInfo{Name: "eve"}))); err != nil {
		t.Error(err)
	}
}
