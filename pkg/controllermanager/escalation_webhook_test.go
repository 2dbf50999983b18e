package controllermanager

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/admission"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kube"
)

// nobodyHolds gives no one any rights; it records the user it was asked about.
type nobodyHolds struct{ asked user.Info }

func (n *nobodyHolds) Missing(u user.Info, _ authz.BindingScope, rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	n.asked = u
	return rules
}

func (n *nobodyHolds) MissingOf(user.Info, authz.BindingScope, authz.RoleRef) ([]rbacv1.PolicyRule, bool) {
	return nil, false
}

func (n *nobodyHolds) Held(user.Info, authz.BindingScope) []authz.Grant { return nil }

func (n *nobodyHolds) Memberships(user.Info) (*authz.PartialList, bool) { return nil, false }

func (n *nobodyHolds) WorkspaceOf(string) string { return "" }

func (n *nobodyHolds) Leftovers(string) (bool, bool) { return false, false }

func (n *nobodyHolds) HoldsVerb(user.Info, authz.BindingScope, string, string, string) bool {
	return false
}

func reviewOf(op admissionv1.Operation, resource, object string) webhook.Request {
	return webhook.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: op,
		Name:      "x",
		Resource:  metav1.GroupVersionResource{Group: "iam.kubesphere.io", Version: "v1beta1", Resource: resource},
		Object:    runtime.RawExtension{Raw: []byte(object)},
		UserInfo: authenticationv1.UserInfo{
			Username: "ann",
			UID:      "u",
			Groups:   []string{"dev", "kapis:global:platform-admin"},
			Extra:    map[string]authenticationv1.ExtraValue{"a": {"b"}},
		},
	}}
}

const ruled = `{"rules":[{"verbs":["get"],"apiGroups":[""],"resources":["pods"]}]}`

func TestKubeAPIServerIsAnsweredByTheRules(t *testing.T) { // S6, S60
	n := &nobodyHolds{}
	var fault error
	j := &escalationWebhook{guard: &admission.Guard{Holdings: n}, ready: func() error { return fault }}
	if resp := j.Handle(t.Context(), reviewOf(admissionv1.Create, "globalroles", ruled)); resp.Allowed || resp.Result.Code != http.StatusForbidden ||
		resp.Result.Reason != metav1.StatusReasonForbidden || !strings.Contains(resp.Result.Message, "get pods") {
		t.Errorf("%v", resp.Result)
	}
	if n.asked.GetName() != "ann" || n.asked.GetUID() != "u" || !slices.Equal(n.asked.GetGroups(), []string{"dev"}) || n.asked.GetExtra()["a"][0] != "b" {
		t.Errorf("asked about %v", n.asked)
	}
	if resp := j.Handle(t.Context(), reviewOf(admissionv1.Create, "globalroles", `{}`)); !resp.Allowed {
		t.Errorf("a role that grants nothing: %v", resp.Result)
	}
	j.guard.Native = func(context.Context, user.Info, string, schema.GroupVersionResource, string, string) (bool, error) {
		return false, errors.New("down")
	}
	if resp := j.Handle(t.Context(), reviewOf(admissionv1.Update, "globalroles", ruled)); resp.Allowed || resp.Result.Code != http.StatusInternalServerError {
		t.Errorf("what can't be found out: %v", resp.Result)
	}
	fault = errors.New("list roles: not complete yet")
	if resp := j.Handle(t.Context(), reviewOf(admissionv1.Create, "globalroles", `{}`)); resp.Allowed || resp.Result.Code != http.StatusServiceUnavailable ||
		!strings.Contains(resp.Result.Message, "not complete") {
		t.Errorf("before roles are known: %v", resp.Result)
	}
}

// A Group whose name kube-apiserver generated may have a name that bindings refer to.
func TestAGeneratedNameIsChecked(t *testing.T) { // S6
	var asked []string
	j := &escalationWebhook{
		ready: func() error { return nil },
		guard: &admission.Guard{Holdings: &nobodyHolds{}, NamedGroup: func(_ context.Context, name string) (bool, error) {
			asked = append(asked, name)
			return name == "sre-x7f2k", nil
		}},
	}
	for object, allowed := range map[string]bool{
		`{"metadata":{"generateName":"sre-","name":"sre-x7f2k"}}`: false, `{"metadata":{"generateName":"sre-","name":"sre-other"}}`: true,
		`{"metadata":{"generateName":"sre-"}}`: true,
	} {
		req := reviewOf(admissionv1.Create, "groups", object)
		req.Name = ""
		if resp := j.Handle(t.Context(), req); resp.Allowed != allowed {
			t.Errorf("%s: %+v", object, resp.Result)
		}
	}
	if len(asked) != 2 {
		t.Errorf("asked about %q", asked)
	}
}

func TestNativeRightsAreForThoseWhoAreNoUsers(t *testing.T) { // S6
	const (
		installer = "system:serviceaccount:x:installer" // escalate, by name
		manager   = "system:serviceaccount:x:manager"   // all verbs on roles
		root      = "root"                              // all
	)
	ann := &iamv1beta1.User{}
	ann.Name = "ann"
	allowed := func(s *authorizationv1.SubjectAccessReviewSpec) bool {
		a := s.ResourceAttributes
		switch s.User {
		case root, "ann":
			return true
		case installer:
			return a.Verb == "escalate" && a.Group == "iam.kubesphere.io" && a.Resource == "globalroles" && a.Name == "x"
		case manager:
			return a.Group == "iam.kubesphere.io"
		}
		return slices.Contains(s.Groups, "system:masters") || slices.Contains(s.Groups, "kapis:global:platform-admin")
	}
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(ann).Build(), interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SubjectAccessReview)
			if review.Spec.User == "broken" {
				return errors.New("down")
			}
			review.Status.Allowed = allowed(&review.Spec)
			return nil
		},
	})
	gvr := iamv1beta1.SchemeGroupVersion.WithResource("globalroles")
	for name, tc := range map[string]struct {
		user   user.DefaultInfo
		object string
		want   bool
	}{
		"AVerbByItsName":             {user.DefaultInfo{Name: installer}, "x", true},
		"OnAnotherObject":            {user.DefaultInfo{Name: installer}, "y", false},
		"AllVerbsAreNoRightToBind":   {user.DefaultInfo{Name: manager}, "x", false},
		"EverythingIs":               {user.DefaultInfo{Name: root}, "x", true},
		"ASuperuser":                 {user.DefaultInfo{Name: "someone", Groups: []string{"system:masters"}}, "x", true},
		"AUserHasHisRightsByRoles":   {user.DefaultInfo{Name: "ann"}, "x", false},
		"GroupsOfOurOwnDoNotCount":   {user.DefaultInfo{Name: "someone", Groups: []string{"kapis:global:platform-admin"}}, "x", false},
		"ASuperuserOfTheSameName":    {user.DefaultInfo{Name: "ann", Groups: []string{"system:masters"}}, "x", true},
		"WhoHasNothing":              {user.DefaultInfo{Name: "someone"}, "x", false},
		"WhoBelongsToAnotherAccount": {user.DefaultInfo{Name: "system:serviceaccount:x:other"}, "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := (&native{c}).may(t.Context(), &tc.user, "escalate", gvr, "", tc.object); err != nil || got != tc.want {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
	if ok, err := (&native{c}).may(t.Context(), &user.DefaultInfo{Name: manager}, "delete", gvr, "", "x"); err != nil || !ok {
		t.Errorf("all verbs are one to delete: %v, %v", ok, err)
	}
	if ok, err := (&native{c}).may(t.Context(), &user.DefaultInfo{Name: "broken"}, "bind", gvr, "", ""); ok || err == nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestWhatIsProtectedIsNotDeleted(t *testing.T) {
	for object, want := range map[string]bool{
		`{"metadata":{"labels":{"kubesphere.io/protected-resource":""}}}`: false, `{"metadata":{"labels":{"a":"b"}}}`: true, `{}`: true, `[`: false,
	} {
		req := reviewOf(admissionv1.Delete, "namespaces", "")
		req.OldObject.Raw = []byte(object)
		if resp := protect(t.Context(), req); resp.Allowed != want {
			t.Errorf("%s: %v", object, resp.Result)
		}
	}
	if !protect(t.Context(), reviewOf(admissionv1.Update, "namespaces", "[")).Allowed {
		t.Error("an update is no deletion")
	}
}
