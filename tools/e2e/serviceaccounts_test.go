package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
)

// S34: a service account's token has no end of its own, and dies with what holds it within a second.
func TestAServiceAccountsTokenLivesAsLongAsItsSecret(t *testing.T) {
	_, c := cluster(t)
	namespace := newNamespace(t)
	a := &kubespherev1alpha1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
	if err := c.Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	binding := unique("robot")
	user := "kubesphere:serviceaccount:" + namespace + ":robot"
	admin(t).create(t, iamAPI+"/globalrolebindings", map[string]any{
		"apiVersion": "iam.kubesphere.io/v1beta1", "kind": "GlobalRoleBinding", "metadata": map[string]any{"name": binding},
		"roleRef":  map[string]any{"apiGroup": "iam.kubesphere.io", "kind": "GlobalRole", "name": "platform-admin"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}},
	})
	s := &corev1.Secret{}
	token := func() caller {
		t.Helper()
		eventually(t, "there is a Secret", func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil || len(a.Secrets) == 0 {
				return fmt.Errorf("no Secret is named: %w", err)
			}
			return c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: a.Secrets[0].Name}, s)
		})
		robot := caller{product.URL, string(s.Data["token"])}
		eventually(t, "the token opens", robot.is(http.StatusOK, http.MethodGet, "/kapis/iam.kubesphere.io/v1beta1/users"))
		return robot
	}
	robot := token()
	eventually(t, "and at kube-apiserver", robot.is(http.StatusOK, http.MethodGet, "/api/v1/namespaces/"+namespace+"/configmaps"))

	if err := c.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	within(t, revocation, "without its Secret it is refused", robot.is(http.StatusUnauthorized, http.MethodGet, "/api"))
	old := robot
	robot = token()
	if old.token == robot.token {
		t.Fatal("the same token came back")
	}
	old.must(t, http.StatusUnauthorized, http.MethodGet, "/api", nil)
	if err := c.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	within(t, revocation, "without its account it is refused", robot.is(http.StatusUnauthorized, http.MethodGet, "/api"))
}

// The server of the pages has a service account from the start, with a token, and the rights of its role alone.
func TestTheConsoleHasAServiceAccount(t *testing.T) {
	_, c := cluster(t)
	a, s := &kubespherev1alpha1.ServiceAccount{}, &corev1.Secret{}
	eventually(t, "there is a token", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Namespace: "kubesphere-system", Name: "ks-console"}, a); err != nil || len(a.Secrets) == 0 {
			return fmt.Errorf("no Secret is named: %w", err)
		}
		return c.Get(ctx, client.ObjectKey{Namespace: a.Namespace, Name: a.Secrets[0].Name}, s)
	})
	console := caller{product.URL, string(s.Data["token"])}
	const proxies = "/kapis/extensions.kubesphere.io/v1alpha1/reverseproxies"
	eventually(t, "it may list what its role names", console.is(http.StatusOK, http.MethodGet, proxies))
	newUser(t, unique("plain")).must(t, http.StatusForbidden, http.MethodGet, proxies, nil)
	console.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/kubesphere-system/secrets", nil)
	console.must(t, http.StatusForbidden, http.MethodDelete, proxies+"/x", nil)
}

// A pod that asks for a service account of kubesphere.io gets its token; one that asks for none that is there, is refused; any other is left alone.
func TestAPodIsGivenTheTokenThatItAsksFor(t *testing.T) {
	_, c := cluster(t)
	namespace := newNamespace(t)
	a := &kubespherev1alpha1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
	if err := c.Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is a token", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(a), a); err != nil || len(a.Secrets) == 0 {
			return fmt.Errorf("no Secret is named: %w", err)
		}
		return nil
	})
	for name, want := range map[string]string{"": "", "robot": a.Secrets[0].Name, "nobody": "refused"} {
		eventually(t, "asking for "+name, func(ctx context.Context) error { // the webhook may not know the Secret at once
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "p-"}, Spec: corev1.PodSpec{
				AutomountServiceAccountToken: new(bool), Containers: []corev1.Container{{Name: "c", Image: "i"}},
			}}
			if name != "" {
				pod.Annotations = map[string]string{kubespherev1alpha1.AnnotationPodServiceAccount: name}
			}
			got, err := "", c.Create(ctx, pod, client.DryRunAll)
			if err != nil {
				got = "refused"
			} else if v := pod.Spec.Volumes; len(v) > 0 && v[0].Secret != nil {
				got = v[0].Secret.SecretName
			}
			if got != want {
				return fmt.Errorf("%q, want %q: %w", got, want, err)
			}
			return nil
		})
	}
}

// The annotation of a service account of Kubernetes is a binding, since the webhook is asked who writes it.
func TestTheRoleOfAServiceAccountIsBound(t *testing.T) { // S60
	_, c := cluster(t)
	namespace := newNamespace(t)
	role(t, namespace, "reader", rule{[]string{"get"}, []string{""}, []string{"configmaps"}})
	a := &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot", Annotations: map[string]string{"iam.kubesphere.io/role": "reader"}},
	}
	if err := c.Create(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is bound", admin(t).is(http.StatusOK, http.MethodGet, iamAPI+"/namespaces/"+namespace+"/rolebindings/ks-serviceaccount-robot"))
}
