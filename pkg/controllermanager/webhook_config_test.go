package controllermanager

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"kapis.dev/ks-apiserver/pkg/certificate"
	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
	"kapis.dev/ks-apiserver/pkg/controller/user"
	"kapis.dev/ks-apiserver/pkg/kube"
	"kapis.dev/ks-apiserver/pkg/store"
)

func newRegistrar(c *fake.Clientset, bundle *string) *registrar {
	return &registrar{
		api: c.AdmissionregistrationV1(), entries: fixed, every: time.Hour, changed: make(chan struct{}), ready: func() error { return nil },
		clientConfig: func(path string) admissionv1.WebhookClientConfig {
			return admissionv1.WebhookClientConfig{URL: &path, CABundle: []byte(*bundle)}
		},
	}
}

func TestTheObjectsAreMadeAndKept(t *testing.T) { // S60
	c, bundle := fake.NewClientset(), "one"
	r := newRegistrar(c, &bundle)
	writes := func() (n int) {
		for _, a := range c.Actions() {
			if a.GetVerb() != "get" {
				n++
			}
		}
		c.ClearActions()
		return n
	}
	register := func(want int, what string) {
		t.Helper()
		if err := r.register(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := writes(); n != want {
			t.Errorf("%s: %d writes, want %d", what, n, want)
		}
	}
	register(2, "at first")
	register(0, "where nothing changed")
	bundle = "two"
	register(2, "with another authority")
	validating := c.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	now, err := validating.Get(t.Context(), configuration, metav1.GetOptions{})
	if err != nil || string(now.Webhooks[0].ClientConfig.CABundle) != "two" || *now.Webhooks[0].FailurePolicy != admissionv1.Fail {
		t.Fatalf("%+v, %v", now, err)
	}
	ignore := admissionv1.Ignore
	now.Webhooks[0].FailurePolicy = &ignore
	if _, err := validating.Update(t.Context(), now, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	writes()
	register(1, "where somebody has weakened one")
	if err := c.AdmissionregistrationV1().MutatingWebhookConfigurations().Delete(t.Context(), configuration, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	writes()
	register(1, "where somebody has deleted one")
}

func TestNothingIsRegisteredBeforeItCanAnswer(t *testing.T) {
	c, bundle := fake.NewClientset(), ""
	r := newRegistrar(c, &bundle)
	changed := make(chan struct{})
	r.changed = changed
	asked := make(chan struct{}, 1)
	known := false
	r.ready = func() error {
		select {
		case asked <- struct{}{}:
		default:
		}
		if !known {
			return errors.New("not yet")
		}
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Start(ctx) }()
	<-asked
	changed <- struct{}{} // it waits again
	<-asked
	if len(c.Actions()) > 0 {
		t.Error("it was registered")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTheListLeavesTheClusterAlone(t *testing.T) { // S60
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	served := (&webhooks{client: fake.NewClientset()}).handlers(nowhere{})
	limits := resourcequota.NewLimits()
	limits.Set(&store.Object{Name: "q", Raw: []byte(`{"spec":{"selector":{"kubesphere.io/workspace":"a"},"quota":{"hard":{"pods":"1"}}}}`)})
	names := map[string]bool{}
	for _, e := range entries(limits) {
		if names[e.name] || !strings.HasSuffix(e.name, ".kapis.dev") || served[e.path] == nil {
			t.Errorf("webhook %q at %q", e.name, e.path)
		}
		names[e.name] = true
		for _, c := range e.conditions {
			if _, iss := env.Compile(c.Expression); iss.Err() != nil {
				t.Errorf("%s: %s: %v", e.name, c.Name, iss.Err())
			}
		}
		for _, r := range e.rules {
			deletes := slices.Contains(r.Operations, admissionv1.Delete) && e.name != "guard.kapis.dev" && e.name != "protector.catalogue.kapis.dev"
			if deletes || slices.Contains(r.APIGroups, "*") ||
				slices.Contains(r.Resources, "*") {
				t.Errorf("%s asks about %v", e.name, r)
			}
			// Writes of the cluster's own components are checked only if the object carries something of this project.
			if r.APIGroups[0] == "" && len(e.objects.MatchExpressions) == 0 && len(e.namespaces.MatchExpressions) == 0 && !ofAnnotation(e.conditions) {
				t.Errorf("%s is asked about every object of the core group: %v", e.name, r)
			}
		}
		if e.policy != admissionv1.Fail && !strings.Contains(e.name, ".config.") {
			t.Errorf("%s does not hold while nobody answers", e.name)
		}
	}
}

// nowhere is a manager without a cluster.
type nowhere struct{ manager.Manager }

func (nowhere) GetClient() client.Client    { return nil }
func (nowhere) GetAPIReader() client.Reader { return nil }

// ofAnnotation reports whether a condition checks an annotation of the object.
func ofAnnotation(conditions []admissionv1.MatchCondition) bool {
	return slices.ContainsFunc(conditions, func(c admissionv1.MatchCondition) bool {
		return strings.HasPrefix(c.Expression, "object.metadata.?annotations[")
	})
}

func TestQuotasAreAskedAboutWhereThereAreAny(t *testing.T) {
	limits := resourcequota.NewLimits()
	if n := len(entries(limits)); n != len(fixed()) {
		t.Errorf("%d webhooks without a quota, want %d", n, len(fixed()))
	}
	c, bundle := fake.NewClientset(), ""
	r := newRegistrar(c, &bundle)
	r.entries, r.limited = func() []entry { return entries(limits) }, limits.Changed()
	written := make(chan struct{}, 10)
	c.PrependReactor("update", "validatingwebhookconfigurations", func(k8stesting.Action) (bool, runtime.Object, error) {
		written <- struct{}{}
		return false, nil, nil
	})
	c.PrependReactor("create", "mutatingwebhookconfigurations", func(k8stesting.Action) (bool, runtime.Object, error) {
		written <- struct{}{}
		return false, nil, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- r.Start(ctx) }()
	<-written // the first write
	limits.Set(&store.Object{Name: "q", Raw: []byte(`{"spec":{"selector":{"kubesphere.io/workspace":"a"},"quota":{"hard":{"pods":"1"}}}}`)})
	<-written // at once, and not after r.every
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	now, err := c.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(t.Context(), configuration, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	last := now.Webhooks[len(now.Webhooks)-1]
	if last.Name != "quota.kapis.dev" || *last.SideEffects != admissionv1.SideEffectClassNoneOnDryRun || *last.FailurePolicy != admissionv1.Fail ||
		len(last.NamespaceSelector.MatchExpressions) != 2 {
		t.Errorf("%+v", last)
	}
}

// A replica that does not count would refuse all that a new quota limits.
func TestQuotasAreAskedAboutWhereTheyAreCounted(t *testing.T) {
	limits := resourcequota.NewLimits()
	limits.Set(&store.Object{Name: "q", Raw: []byte(`{"spec":{"selector":{"kubesphere.io/workspace":"a"},"quota":{"hard":{"pods":"1"}}}}`)})
	for patterns, want := range map[string]bool{"*": true, "*,-user": true, "*,-resourcequota": false, "user": false} {
		list, err := choose(controllers(nil, nil, "host", configured{}), strings.Split(patterns, ","))
		if err != nil {
			t.Fatal(err)
		}
		h := &webhooks{limits: limits, counted: has(list, resourcequota.Name)}
		if got := slices.ContainsFunc(h.entries(), func(e entry) bool { return e.name == "quota.kapis.dev" }); got != want {
			t.Errorf("--controllers=%s: asked about: %t, want %t", patterns, got, want)
		}
	}
}

// indexer is the field indexer of an in-memory cache.
type indexer struct {
	manager.Manager
	*fakeclient.ClientBuilder
}

func (i indexer) GetFieldIndexer() client.FieldIndexer { return i }

func (i indexer) IndexField(_ context.Context, o client.Object, field string, of client.IndexerFunc) error {
	i.WithIndex(o, field, of)
	return nil
}

// Even if other controllers are selected, e-mails of users are indexed.
func TestTheWebhooksBringTheirIndexAlong(t *testing.T) {
	i := indexer{ClientBuilder: fakeclient.NewClientBuilder().WithScheme(kube.Scheme())}
	for _, c := range (&webhooks{}).indexes() {
		if len(c.needs) == 0 || has(controllers(nil, nil, "host", configured{}), c.name) {
			t.Errorf("%s needs %v", c.name, c.needs)
		}
		if err := c.setup(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	req := webhook.Request{}
	req.Operation, req.Name, req.Object.Raw = "CREATE", "ann", []byte(`{"spec":{"email":"ann@example.com"}}`)
	if resp := (&user.Validator{Users: i.Build()}).Handle(t.Context(), req); !resp.Allowed {
		t.Errorf("%+v", resp.Result)
	}
	if none := (*webhooks)(nil).indexes(); none != nil {
		t.Errorf("without webhooks: %v", none)
	}
}

func TestTheConditionOfServiceAccountsIsTheAnnotation(t *testing.T) {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	var condition string
	for _, e := range fixed() {
		for _, c := range e.conditions {
			if c.Name == "role-asked-for" {
				condition = c.Expression
			}
		}
	}
	ast, iss := env.Compile(condition)
	if iss.Err() != nil {
		t.Fatal(iss.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	with := func(role string) any {
		return map[string]any{"metadata": map[string]any{"annotations": map[string]any{"iam.kubesphere.io/role": role}}}
	}
	bare := map[string]any{"metadata": map[string]any{}}
	for name, c := range map[string]struct {
		now, old any
		want     bool
	}{
		"WithoutIt": {bare, nil, false}, "New": {with("a"), nil, true}, "Added": {with("a"), bare, true}, "Changed": {with("a"), with("b"), true},
		"AsItWas": {with("a"), with("a"), false},
	} {
		got, _, err := program.Eval(map[string]any{"object": c.now, "oldObject": c.old, "request": nil})
		if err != nil || got.Value() != c.want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestKubeAPIServerFindsTheWebhooks(t *testing.T) {
	keeper, err := certificate.Open(
		t.Context(),
		certificate.Options{Secrets: fake.NewClientset().CoreV1().Secrets(Namespace), Name: certificateSecret, Hosts: []string{"a"}, Now: time.Now},
	)
	if err != nil {
		t.Fatal(err)
	}
	in := (&webhooks{keeper: keeper}).clientConfig("/x")
	if in.URL != nil || in.Service.Name != "ks-controller-manager" || in.Service.Namespace != "kubesphere-system" || *in.Service.Path != "/x" ||
		*in.Service.Port != 443 || len(in.CABundle) == 0 {
		t.Errorf("in the cluster: %+v", in)
	}
	u, err := url.Parse("https://127.0.0.1:1234/")
	if err != nil {
		t.Fatal(err)
	}
	if out := (&webhooks{keeper: keeper, url: u}).clientConfig("/x"); out.Service != nil || *out.URL != "https://127.0.0.1:1234/x" {
		t.Errorf("outside: %+v", out)
	}
	for _, bad := range []string{"http://127.0.0.1:1", "https://", "https://a?b", "https://u@a", "://", "a"} {
		if _, err := newWebhooks(t.Context(), nil, Options{WebhookPort: 1, WebhookURL: bad}); err == nil || !strings.Contains(err.Error(), "--webhook-url") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if h, err := newWebhooks(t.Context(), nil, Options{}); h != nil || err != nil {
		t.Errorf("no port: %v, %v", h, err)
	}
}

// Namespaces can be deleted while no webhook answers; deletions by all others are checked.
func TestTheEndOfANamespaceIsNotAskedAbout(t *testing.T) { // S72
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType), cel.Variable("request", cel.DynType))
	if err != nil {
		t.Fatal(err)
	}
	ast, iss := env.Compile(notAtTheEndOfANamespace().Expression)
	if iss.Err() != nil {
		t.Fatal(iss.Err())
	}
	program, err := env.Program(ast)
	if err != nil {
		t.Fatal(err)
	}
	const collector, ender = "system:serviceaccount:kube-system:generic-garbage-collector", "system:serviceaccount:kube-system:namespace-controller"
	for name, c := range map[string]struct {
		operation, namespace, user string
		asked                      bool
	}{
		"TheNamespaceController": {"DELETE", "n", ender, false}, "TheGarbageCollector": {"DELETE", "n", collector, false},
		"TheGarbageCollectorElsewhere": {"DELETE", "", collector, true}, "AChangeByTheGarbageCollector": {"UPDATE", "n", collector, true},
		"OneOfItsNameElsewhere": {"DELETE", "n", "system:serviceaccount:a:generic-garbage-collector", true}, "Somebody": {"DELETE", "n", "ann", true},
	} {
		request := map[string]any{"operation": c.operation, "userInfo": map[string]any{"username": c.user}}
		if c.namespace != "" {
			request["namespace"] = c.namespace
		}
		got, _, err := program.Eval(map[string]any{"object": nil, "oldObject": nil, "request": request})
		if err != nil || got.Value() != c.asked {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, r := range fixed()[0].rules {
		if !slices.Contains(r.Operations, admissionv1.Delete) && !slices.Equal(r.Resources, []string{"users/status"}) {
			t.Errorf("deletions of %v are not asked about", r.Resources)
		}
	}
}
