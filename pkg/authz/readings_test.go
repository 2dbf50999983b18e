package authz_test

import (
	"context"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/request"
)

func TestOlderNamesMeanWhatTheyAreCalledNow(t *testing.T) {
	var asked *request.Info
	older := authz.Order{Authorizers: authz.Union{authz.Func(func(_ context.Context, _ user.Info, r *request.Info) (authz.Decision, error) {
		asked = r
		return authz.Allow("", ""), nil
	})}}
	for path, want := range map[string]string{
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/members":   "namespacemembers  ",
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/members/b": "namespacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/users/b/globalroles":    "users b roletemplates",
		// The roles of a member are authorized as the member is.
		"/kapis/iam.kubesphere.io/v1alpha2/clustermembers/b/clusterroles":                  "clustermembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/workspaces/a/workspacemembers/b/workspaceroles": "workspacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/members/b/roles":                   "namespacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/namespaces/a/namespacemembers/b/roles":          "namespacemembers b ",
		"/kapis/iam.kubesphere.io/v1alpha2/clustermembers/b/roles":                         "clustermembers b roles",
		"/kapis/iam.kubesphere.io/v1alpha2/clustermembers/b/status":                        "clustermembers b status",
		"/kapis/iam.kubesphere.io/v1alpha2/watch/clustermembers/b/clusterroles":            "clustermembers b clusterroles",
		"/kapis/iam.kubesphere.io/v1alpha2/members/b/roles":                                "members b ",
		"/kapis/iam.kubesphere.io/v1beta1/clustermembers/b/clusterroles":                   "clustermembers b clusterroles",
		"/kapis/iam.kubesphere.io/v1alpha2/users/b/password":                               "users b password",
		"/kapis/iam.kubesphere.io/v1alpha2/members":                                        "members  ",
		"/kapis/iam.kubesphere.io/v1beta1/namespaces/a/members":                            "members  ",
		"/kapis/iam.kubesphere.io/v1beta1/users/b/globalroles":                             "users b globalroles",
		"/apis/iam.kubesphere.io/v1alpha2/namespaces/a/members":                            "members  ",
		"/kapis/other/v1alpha2/namespaces/a/members":                                       "members  ",
	} {
		in := parse(t, "GET", path)
		before := *in
		if d, err := older.Authorize(t.Context(), bob, in); err != nil || !d.Allowed() {
			t.Fatalf("%+v, %v", d, err)
		}
		if got := asked.Resource + " " + asked.Name + " " + asked.Subresource; got != want {
			t.Errorf("%s is decided as %s", path, got)
		}
		if *in != before || asked.Namespace != before.Namespace || asked.Scope != before.Scope {
			t.Errorf("%s: %+v became %+v", path, before, asked)
		}
	}
	if _, err := older.Authorize(t.Context(), bob, nil); err != nil || asked != nil {
		t.Errorf("nothing: %+v, %v", asked, err)
	}
}
