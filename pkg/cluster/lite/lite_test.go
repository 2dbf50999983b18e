package lite_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/cluster/deployment"
	"kapis.dev/ks-apiserver/pkg/cluster/lite"
)

const account = "system:serviceaccount:kubesphere-system:ks-fleet-lite"

func consent(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "ks-fleet-lite", Namespace: "kubesphere-system"}, Data: data}
}

// F41: only a yes to this hub, for this Cluster, counts; groups that are powerful in themselves are none of people.
func TestAMemberIsServedWhereItsAdministratorSaysSo(t *testing.T) {
	for name, x := range map[string]struct {
		objects []runtime.Object
		hub     string
		refuse  bool
		want    string
	}{
		"Yes":            {objects: []runtime.Object{consent(map[string]string{"hub": "u-hub", "cluster": "edge"})}, hub: "u-hub"},
		"Silence":        {hub: "u-hub", want: "has not said yes"},
		"AnotherHub":     {objects: []runtime.Object{consent(map[string]string{"hub": "u-other", "cluster": "edge"})}, hub: "u-hub", want: "another hub"},
		"AnotherName":    {objects: []runtime.Object{consent(map[string]string{"hub": "u-hub", "cluster": "edge2"})}, hub: "u-hub", want: "of the name"},
		"NoCluster":      {objects: []runtime.Object{consent(map[string]string{"hub": "u-hub"})}, hub: "u-hub", want: "of the name"},
		"Empty":          {objects: []runtime.Object{consent(nil)}, hub: "u-hub", want: "another hub"},
		"HubWithoutName": {objects: []runtime.Object{consent(map[string]string{"cluster": "edge"})}, want: "another hub"},
		"Unreadable":     {hub: "u-hub", refuse: true, want: "can't be read"},
	} {
		t.Run(name, func(t *testing.T) {
			client := fake.NewClientset(x.objects...)
			if x.refuse {
				client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
				})
			}
			_, err := lite.Consent(t.Context(), client, x.hub, "edge")
			if x.want == "" && err != nil || x.want != "" && (!errors.Is(err, lite.ErrRefused) || !strings.Contains(err.Error(), x.want)) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
	client := fake.NewClientset(consent(map[string]string{"hub": "u-hub", "cluster": "edge",
		"groups": "ops\nsystem:masters\n kapis:global:admin\n\n dev \nops\nsystem:nodes"}))
	groups, err := lite.Consent(t.Context(), client, "u-hub", "edge")
	if err != nil || strings.Join(groups, " ") != "dev ops" {
		t.Errorf("the groups are %q, %v", groups, err)
	}
	client.PrependReactor("get", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, context.DeadlineExceeded
	})
	if _, err := lite.Consent(t.Context(), client, "u-hub", "edge"); err == nil || errors.Is(err, lite.ErrRefused) {
		t.Errorf("a cluster that does not answer has refused: %v", err)
	}
}

// plane is a kube-apiserver that says whose a credential is, and what that may do.
func plane(who string, may ...string) *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{
			UserInfo: authenticationv1.UserInfo{Username: who}}}, nil
	})
	client.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		of := review.Spec.ResourceAttributes
		for _, right := range may {
			review.Status.Allowed = review.Status.Allowed || right == strings.TrimSpace(of.Verb+" "+of.Resource+" "+of.Name)
		}
		return true, review, nil
	})
	return client
}

// F41: requests of users are made with the account that the administrator has made for that, and never with a credential of all rights.
func TestNoCredentialOfAllRightsIsUsed(t *testing.T) {
	if err := lite.CheckAccount(t.Context(), plane(account)); err != nil {
		t.Error(err)
	}
	for name, client := range map[string]*fake.Clientset{
		"administrator":          plane("kubernetes-admin", "* *"),
		"another account":        plane("system:serviceaccount:kube-system:ks-fleet-lite"),
		"name that begins alike": plane(account + "2"),
		"all rights":             plane(account, "* *"),
		"every identity":         plane(account, "impersonate groups system:masters"),
		"more rights than given": plane(account, "escalate clusterroles"),
		"any role":               plane(account, "bind clusterroles cluster-admin"),
	} {
		if err := lite.CheckAccount(t.Context(), client); !errors.Is(err, lite.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// F41: what an administrator applies has no star, reads no Secret and gives no right to one, lets nobody be impersonated but users, and
// in no group but that of all; and it names the hub.
func TestWhatAnAdministratorSaysYesToIsListed(t *testing.T) {
	raw, err := deployment.LiteYAML("u-hub", "edge")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for doc := range strings.SplitSeq(string(raw), "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Rules    []rbacv1.PolicyRule
			Data     map[string]string
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatalf("%v in %.200s", err, doc)
		}
		kinds[o.Kind] = true
		if o.Kind == "ConfigMap" && (o.Data["hub"] != "u-hub" || o.Data["cluster"] != "edge") {
			t.Errorf("the yes is %v", o.Data)
		}
		for _, rule := range o.Rules {
			text := strings.Join(append(append(append([]string{}, rule.Verbs...), rule.APIGroups...), rule.Resources...), " ") + " "
			if strings.Contains(text, "*") || strings.Contains(text, "secrets ") || strings.Contains(text, "impersonate ") || strings.Contains(text, "escalate ") {
				t.Errorf("%s %s: %+v", o.Kind, o.Metadata.Name, rule)
			}
			if strings.Contains(text, "groups ") && strings.Join(rule.ResourceNames, " ") != "system:authenticated" {
				t.Errorf("groups: %+v", rule)
			}
			if o.Kind == "ClusterRole" && strings.Contains(text, "serviceaccounts/token") {
				t.Errorf("tokens: %+v", rule)
			}
		}
	}
	for _, kind := range []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap"} {
		if !kinds[kind] {
			t.Errorf("there is no %s", kind)
		}
	}
}

// F42: the yes, the account and its binding are deleted, and what the account may not delete belongs to one of them.
func TestNothingIsLeftOfALiteMember(t *testing.T) {
	named := metav1.ObjectMeta{Name: "ks-fleet-lite", Namespace: "kubesphere-system", UID: "u-1"}
	global := metav1.ObjectMeta{Name: "kubesphere:ks-fleet-lite", UID: "u-2"}
	client := fake.NewClientset(consent(nil), &corev1.ServiceAccount{ObjectMeta: named}, &rbacv1.Role{ObjectMeta: named},
		&rbacv1.RoleBinding{ObjectMeta: named}, &rbacv1.ClusterRole{ObjectMeta: global}, &rbacv1.ClusterRoleBinding{ObjectMeta: global})
	if err := lite.Remove(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	o := metav1.GetOptions{}
	for name, get := range map[string]func() error{
		"consent": func() error {
			_, err := client.CoreV1().ConfigMaps(named.Namespace).Get(t.Context(), named.Name, o)
			return err
		},
		"account": func() error {
			_, err := client.CoreV1().ServiceAccounts(named.Namespace).Get(t.Context(), named.Name, o)
			return err
		},
		"binding": func() error {
			_, err := client.RbacV1().ClusterRoleBindings().Get(t.Context(), global.Name, o)
			return err
		},
	} {
		if err := get(); !apierrors.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	role, err := client.RbacV1().ClusterRoles().Get(t.Context(), global.Name, o)
	if err != nil || len(role.OwnerReferences) != 1 || role.OwnerReferences[0].UID != "u-2" {
		t.Errorf("the role belongs to %+v, %v", role, err)
	}
	own, err := client.RbacV1().Roles(named.Namespace).Get(t.Context(), named.Name, o)
	if err != nil || len(own.OwnerReferences) != 1 || own.OwnerReferences[0].UID != "u-1" {
		t.Errorf("the role in the namespace belongs to %+v, %v", own, err)
	}
}
