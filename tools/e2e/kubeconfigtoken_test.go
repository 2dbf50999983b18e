package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	"kapis.dev/ks-apiserver/pkg/controller/kubeconfig"
	"kapis.dev/ks-apiserver/pkg/kube"
	"kapis.dev/ks-apiserver/pkg/kubeconfig/account"
)

// tokenController runs the controller of tokens with the rights that ks-controller-manager has.
func tokenController(t *testing.T) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(product.Dir, "ks-controller-manager.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	mgr, err := manager.New(cfg, manager.Options{Scheme: kube.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := kubeconfig.SetupTokens(t.Context(), mgr); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// clientOf returns a client with the kubeconfig of a user, which has a token.
func clientOf(t *testing.T, text string) (*kubernetes.Clientset, *rest.Config) {
	t.Helper()
	cfg, err := clientcmd.RESTConfigFromKubeConfig([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c, cfg
}

func whoami(ctx context.Context, c kubernetes.Interface) (authenticationv1.UserInfo, error) {
	r, err := c.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return r.Status.UserInfo, nil
}

func TestATokenOfAKubeconfigIsItsUserAtKubeAPIServer(t *testing.T) { // O47
	tokenController(t)
	r, err := product.ReplicaWithEnv(t.Context(), []string{"KUBESPHERE_KUBECONFIG_AUTHMODE=service-account-token"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	_, c := cluster(t)
	name := unique("token")
	bob := newUser(t, name)
	bob.base = r.URL
	path := "/kapis/resources.kubesphere.io/v1alpha2/users/" + name + "/kubeconfig"
	his, cfg := clientOf(t, bob.must(t, http.StatusOK, http.MethodGet, path, nil).body)
	var me authenticationv1.UserInfo
	eventually(t, "the token is its user", func(ctx context.Context) (err error) {
		me, err = whoami(ctx, his)
		return err
	})
	if me.Username != name || len(me.Groups) != 1 || me.Groups[0] != "system:authenticated" {
		t.Errorf("%+v", me)
	}
	pods := func(ctx context.Context) error {
		_, err := his.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err
	}
	if err := pods(t.Context()); !apierrors.IsForbidden(err) {
		t.Errorf("without a role: %v", err)
	}
	grantGlobally(t, name, rule{[]string{""}, []string{"pods"}, []string{"list"}})
	eventually(t, "the role of the user counts", pods)

	t.Run("ItIsNobodyElse", func(t *testing.T) {
		for who, as := range map[string]rest.ImpersonationConfig{
			"the admin":              {UserName: "admin"},
			"a group":                {UserName: name, Groups: []string{"system:masters"}},
			"a group of this server": {UserName: name, Groups: []string{account.Group}},
			"the UID of another":     {UserName: name, UID: "0b0b0b0b-1111-4222-8333-444444444444"},
			"a service account":      {UserName: "system:serviceaccount:kubesphere-system:ks-apiserver"},
		} {
			other := rest.CopyConfig(cfg)
			other.Impersonate = as
			oc, err := kubernetes.NewForConfig(other)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := whoami(t.Context(), oc); !apierrors.IsForbidden(err) {
				t.Errorf("%s: %+v %v", who, got, err)
			}
		}
		bare := rest.CopyConfig(cfg)
		bare.Impersonate = rest.ImpersonationConfig{}
		bc, err := kubernetes.NewForConfig(bare)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := bc.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the service account itself lists pods: %v", err)
		}
		// Here the token is no user.
		caller{r.URL, cfg.BearerToken}.must(t, http.StatusForbidden, http.MethodGet, "/api/v1/namespaces/default/pods", nil)
		a, err := caller{r.URL, cfg.BearerToken}.do(t.Context(), http.MethodGet, "/api/v1/namespaces/default/pods", nil, "Impersonate-User: "+name)
		if err != nil || a.code != http.StatusForbidden {
			t.Errorf("impersonation here: %d %v", a.code, err)
		}
	})
	t.Run("NobodyElseGetsIt", func(t *testing.T) {
		caller{r.URL, admin(t).token}.must(t, http.StatusForbidden, http.MethodGet, path, nil)
		stranger := newUser(t, unique("stranger"))
		stranger.base = r.URL
		stranger.must(t, http.StatusForbidden, http.MethodGet, path, nil)
	})
	key := types.NamespacedName{Namespace: account.Namespace}
	accounts := func() []corev1.ServiceAccount {
		t.Helper()
		list, err := kubeClient(t).CoreV1().ServiceAccounts(account.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: account.LabelUser})
		if err != nil {
			t.Fatal(err)
		}
		var of []corev1.ServiceAccount
		for _, sa := range list.Items {
			if sa.Annotations[account.AnnotationUser] == name {
				of = append(of, sa)
			}
		}
		return of
	}
	if his := accounts(); len(his) != 1 {
		t.Fatalf("%+v", his)
	} else {
		key.Name = his[0].Name
	}
	t.Run("ADeletedServiceAccountEndsItsTokens", func(t *testing.T) {
		if err := kubeClient(t).CoreV1().ServiceAccounts(key.Namespace).Delete(t.Context(), key.Name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		within(t, revocation, "the token has ended", func(ctx context.Context) error { return refusal(pods(ctx)) })
		his, cfg = clientOf(t, bob.must(t, http.StatusOK, http.MethodGet, path, nil).body)
		eventually(t, "another one counts", pods)
	})
	u := &iamv1beta1.User{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Status().Patch(t.Context(), u, client.RawPatch(types.MergePatchType, []byte(`{"status":{"state":"Disabled"}}`))); err != nil {
		t.Fatal(err)
	}
	within(t, revocation, "a disabled user has no right by the token", func(ctx context.Context) error { return refusal(pods(ctx)) })
	eventually(t, "nothing is left", func(ctx context.Context) error {
		if len(accounts()) != 0 {
			return errors.New("the service account is there")
		}
		for _, o := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
			if err := c.Get(ctx, types.NamespacedName{Name: account.RoleName(key.Name)}, o); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%T is there: %w", o, err)
			}
		}
		return nil
	})
}

// refusal turns an error into none.
func refusal(err error) error {
	if err == nil {
		return errors.New("it is answered")
	}
	return nil
}

// Nobody but ks-apiserver, for the user whose service account it is, makes one there, changes it, or gets a token of it in any way.
func TestNobodyElseGetsTokensOfKubeconfigs(t *testing.T) { // O47
	const uid, other = "0b0b0b0b-1111-4222-8333-444444444444", "1b0b0b0b-1111-4222-8333-444444444444"
	group := []string{"system:authenticated", account.Group}
	bob := rest.ImpersonationConfig{UserName: "bob", UID: uid, Groups: group}
	as := func(who rest.ImpersonationConfig) *kubernetes.Clientset {
		t.Helper()
		cfg, err := product.RESTConfig()
		if err != nil {
			t.Fatal(err)
		}
		cfg.Impersonate = who
		c, err := kubernetes.NewForConfig(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	try := func(who rest.ImpersonationConfig, change func(*corev1.ServiceAccount)) error {
		sa := account.New("bob", uid, time.Now())
		change(sa)
		_, err := as(who).CoreV1().ServiceAccounts(account.Namespace).Create(t.Context(), sa, dry)
		return err
	}
	refused := func(t *testing.T, err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "kubeconfig-tokens.kapis.dev") {
			t.Errorf("not refused by the policy: %v", err)
		}
	}
	unchanged := func(*corev1.ServiceAccount) {}
	if err := try(bob, unchanged); err != nil {
		t.Fatal(err)
	}
	everybody := map[string]rest.ImpersonationConfig{
		"the admin of the cluster": {},
		"of the masters":           {UserName: "root", UID: uid, Groups: []string{"system:masters"}},
		"this server's own name":   {UserName: "system:serviceaccount:kubesphere-system:ks-apiserver", Groups: []string{"system:masters"}},
		"bob with another UID":     {UserName: "bob", UID: other, Groups: group},
		"bob without a UID":        {UserName: "bob", Groups: group},
	}
	for who, identity := range everybody {
		t.Run("made by "+who, func(t *testing.T) { refused(t, try(identity, unchanged)) })
	}
	refused(t, try(rest.ImpersonationConfig{UserName: "ann", UID: uid, Groups: group}, unchanged))
	for what, change := range map[string]func(*corev1.ServiceAccount){
		"another user's label": func(sa *corev1.ServiceAccount) { sa.Labels[account.LabelUser] = other },
		"one more label":       func(sa *corev1.ServiceAccount) { sa.Labels["a"] = "b" },
		"another user's name":  func(sa *corev1.ServiceAccount) { sa.Annotations[account.AnnotationUser] = "admin" },
		"no name of a user":    func(sa *corev1.ServiceAccount) { sa.Annotations = nil },
		"another name":         func(sa *corev1.ServiceAccount) { sa.Name = account.Name(other) },
		"a longer name":        func(sa *corev1.ServiceAccount) { sa.Name += "-x" },
		"a Secret":             func(sa *corev1.ServiceAccount) { sa.Secrets = []corev1.ObjectReference{{Name: "s"}} },
		"a token in pods":      func(sa *corev1.ServiceAccount) { sa.AutomountServiceAccountToken = nil },
		"a finalizer":          func(sa *corev1.ServiceAccount) { sa.Finalizers = []string{"a/b"} },
		"an owner": func(sa *corev1.ServiceAccount) {
			sa.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: "u"}}
		},
		"a Secret of an image": func(sa *corev1.ServiceAccount) { sa.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "s"}} },
	} {
		t.Run("with "+what, func(t *testing.T) { refused(t, try(bob, change)) })
	}

	accounts := as(bob).CoreV1().ServiceAccounts(account.Namespace)
	sa, err := accounts.Create(t.Context(), account.New("bob", uid, time.Now()), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		root := as(rest.ImpersonationConfig{}).CoreV1().ServiceAccounts(account.Namespace)
		if err := root.Delete(context.Background(), sa.Name, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	token := func(who rest.ImpersonationConfig, name string, seconds *int64) error {
		_, err := as(who).CoreV1().ServiceAccounts(account.Namespace).CreateToken(t.Context(), name,
			&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: seconds}}, metav1.CreateOptions{})
		return err
	}
	if err := token(bob, sa.Name, new(int64(600))); err != nil {
		t.Error(err)
	}
	refused(t, token(bob, sa.Name, new(int64(604801))))
	refused(t, token(bob, "default", new(int64(600))))
	for who, identity := range everybody {
		t.Run("a token for "+who, func(t *testing.T) { refused(t, token(identity, sa.Name, new(int64(600)))) })
	}
	patch := func(who rest.ImpersonationConfig, patch string) error {
		_, err := as(who).CoreV1().ServiceAccounts(account.Namespace).Patch(t.Context(), sa.Name, types.MergePatchType, []byte(patch),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	longer := `{"metadata":{"annotations":{"` + account.AnnotationExpires + `":"2030-01-01T00:00:00Z"}}}`
	if err := patch(bob, longer); err != nil {
		t.Error(err)
	}
	for who, identity := range everybody {
		t.Run("kept by "+who, func(t *testing.T) { refused(t, patch(identity, longer)) })
	}
	for _, who := range []rest.ImpersonationConfig{bob, {}} {
		refused(t, patch(who, `{"metadata":{"annotations":{"`+account.AnnotationUser+`":"admin"}}}`))
		refused(t, patch(who, `{"metadata":{"annotations":null}}`))
		refused(t, patch(who, `{"metadata":{"labels":{"`+account.LabelUser+`":"`+other+`"}}}`))
		refused(t, patch(who, `{"secrets":[{"name":"s"}]}`))
	}
	root := as(rest.ImpersonationConfig{}).CoreV1()
	_, err = root.Pods(account.Namespace).Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		ServiceAccountName: sa.Name,
		SecurityContext:    &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: "RuntimeDefault"}},
		Containers: []corev1.Container{{Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(bool),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}}}}, dry)
	refused(t, err)
	_, err = root.Secrets(account.Namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s",
		Annotations: map[string]string{corev1.ServiceAccountNameKey: sa.Name}}, Type: corev1.SecretTypeServiceAccountToken}, dry)
	refused(t, err)
}
