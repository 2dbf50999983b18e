package controllermanager

import (
	"context"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	client "k8s.io/client-go/kubernetes/typed/admissionregistration/v1"
	"k8s.io/klog/v2"

	"kapis.dev/ks-apiserver/pkg/admission"
	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	iamv1beta1 "kapis.dev/ks-apiserver/pkg/api/iam/v1beta1"
	kubespherev1alpha1 "kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	controllercatalogue "kapis.dev/ks-apiserver/pkg/controller/catalogue"
	"kapis.dev/ks-apiserver/pkg/controller/configsecret"
	controllerextension "kapis.dev/ks-apiserver/pkg/controller/extension"
	"kapis.dev/ks-apiserver/pkg/controller/installapproval"
	"kapis.dev/ks-apiserver/pkg/controller/ksserviceaccount"
	"kapis.dev/ks-apiserver/pkg/controller/resourcequota"
	"kapis.dev/ks-apiserver/pkg/controller/serviceaccount"
)

const (
	// configuration is the name of the two webhook configurations. hack/uninstall.sh uses it.
	configuration = "ks-controller-manager.kapis.dev"
	// registrarEvery is the interval at which both objects are checked: a deleted or edited one is restored within this time.
	registrarEvery = 10 * time.Second
	// timeout is how long kube-apiserver waits for an answer, in seconds.
	timeout = 10

	pathGuard         = "/validate-guard"
	pathUserDefaults  = "/mutate-iam-kubesphere-io-v1beta1-user"
	pathUser          = "/validate-iam-kubesphere-io-v1beta1-user"
	pathConfigDefault = "/mutate--v1-secret"
	pathConfig        = "/validate--v1-secret"
	pathProtector     = "/resource-protector"
	pathKeep          = "/mutate-keep-hidden"
)

// entry is one webhook.
type entry struct {
	// name ends in .kapis.dev.
	name, path string
	mutates    bool
	// rules say which writes the webhook gets. System components do none of these writes, so that a cluster without a running
	// ks-controller-manager still works.
	rules  []admissionv1.RuleWithOperations
	policy admissionv1.FailurePolicyType
	// namespaces, objects and conditions restrict the rules; empty for all.
	namespaces, objects metav1.LabelSelector
	conditions          []admissionv1.MatchCondition
	// reserves says that an allowed request has a side effect, except for a dry run.
	reserves bool
}

// entries returns the list of webhooks. Without quotas, there is no webhook for quotas.
func entries(limits *resourcequota.Limits) []entry {
	all := fixed()
	if rules, where := limits.Asks(); len(rules) > 0 {
		all = append(all, entry{name: "quota.kapis.dev", path: resourcequota.Path, policy: admissionv1.Fail, rules: rules, namespaces: where,
			reserves: true})
	}
	return all
}

// fixed returns the webhooks that exist always.
func fixed() []entry {
	const create, update, remove = admissionv1.Create, admissionv1.Update, admissionv1.Delete
	iam, tenant := iamv1beta1.GroupName, tenantv1beta1.GroupName
	config := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: configsecret.LabelType,
		Operator: metav1.LabelSelectorOpExists}}}
	here := metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": Namespace}}
	users := rule(iam, []string{"users"}, create, update)
	return []entry{
		{
			name: "guard.kapis.dev", path: pathGuard, policy: admissionv1.Fail, reserves: true,
			conditions: []admissionv1.MatchCondition{notSelf(), notSuperuser(), notAtTheEndOfANamespace()},
			rules: []admissionv1.RuleWithOperations{
				rule(iam, admission.Resources(iam), create, update, remove),
				rule(iam, []string{"users/status"}, update),
				rule(tenant, admission.Resources(tenant), create, update, remove),
			},
		},
		{
			// A webhook of its own, so that a service account without the annotation never waits for an answer.
			name: "guard-serviceaccounts.kapis.dev", path: serviceaccount.Path, policy: admissionv1.Fail,
			rules:      []admissionv1.RuleWithOperations{rule("", []string{"serviceaccounts"}, create, update)},
			conditions: ofServiceAccounts(),
		},
		{name: "validator.users.kapis.dev", path: pathUser, policy: admissionv1.Fail, rules: []admissionv1.RuleWithOperations{users},
			conditions: []admissionv1.MatchCondition{notSelf()}},
		{name: "validator.config.kapis.dev", path: pathConfig, policy: admissionv1.Ignore,
			rules: []admissionv1.RuleWithOperations{rule("", []string{"secrets"}, create, update)}, namespaces: here, objects: config},
		{name: "defaulter.users.kapis.dev", path: pathUserDefaults, mutates: true, policy: admissionv1.Fail,
			rules: []admissionv1.RuleWithOperations{users}, conditions: []admissionv1.MatchCondition{notSelf()}},
		{name: "defaulter.config.kapis.dev", path: pathConfigDefault, mutates: true, policy: admissionv1.Ignore,
			rules: []admissionv1.RuleWithOperations{rule("", []string{"secrets"}, create, update)}, namespaces: here, objects: config},
		{
			name: "keeper.kapis.dev", path: pathKeep, mutates: true, policy: admissionv1.Fail, conditions: []admissionv1.MatchCondition{notSelf()},
			rules: []admissionv1.RuleWithOperations{
				rule("cluster.kubesphere.io", []string{"clusters"}, update), rule("kubesphere.io", []string{"repositories"}, update),
				rule("application.kubesphere.io", []string{"repos"}, update),
			},
		},
		{name: "validator.extensions.kapis.dev", path: controllerextension.ValidatePath, policy: admissionv1.Fail,
			rules:      []admissionv1.RuleWithOperations{rule(extensionsv1alpha1.GroupName, controllerextension.Resources(), create, update)},
			conditions: []admissionv1.MatchCondition{notSelf()}},
		{name: "defaulter.extensions.kapis.dev", path: controllerextension.DefaultPath, mutates: true, policy: admissionv1.Fail,
			rules:      []admissionv1.RuleWithOperations{rule(extensionsv1alpha1.GroupName, controllerextension.Resources(), create, update)},
			conditions: []admissionv1.MatchCondition{notSelf()}},
		{name: "approval.installplans.kapis.dev", path: installapproval.Path, mutates: true, policy: admissionv1.Fail,
			rules:      []admissionv1.RuleWithOperations{rule(kubespherev1alpha1.GroupName, []string{"installplans"}, create, update)},
			conditions: []admissionv1.MatchCondition{notSelf()}},
		{name: "protector.catalogue.kapis.dev", path: controllercatalogue.ProtectPath, policy: admissionv1.Fail,
			rules:      []admissionv1.RuleWithOperations{rule(kubespherev1alpha1.GroupName, controllercatalogue.Protected(), remove)},
			conditions: []admissionv1.MatchCondition{notSelf()}},
		{
			name: "injector.serviceaccounts.kapis.dev", path: ksserviceaccount.InjectorPath, mutates: true, policy: admissionv1.Fail,
			rules: []admissionv1.RuleWithOperations{rule("", []string{"pods"}, create)},
			conditions: []admissionv1.MatchCondition{{
				Name: "service-account-asked-for", Expression: `object.metadata.?annotations["` + kubespherev1alpha1.AnnotationPodServiceAccount +
					`"].orValue("") != ""`,
			}},
		},
	}
}

// ofServiceAccounts returns the conditions under which the webhook gets a service account: its role changes, and the writer is not allowed
// to give any role.
func ofServiceAccounts() []admissionv1.MatchCondition {
	return []admissionv1.MatchCondition{notSelf(), notSuperuser(), {
		Name: "role-asked-for", Expression: `object.metadata.?annotations["` + iamv1beta1.AnnotationRole + `"].orValue("") != ` +
			`(oldObject == null ? "" : oldObject.metadata.?annotations["` + iamv1beta1.AnnotationRole + `"].orValue(""))`,
	}}
}

func rule(group string, resources []string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	scope := admissionv1.AllScopes
	return admissionv1.RuleWithOperations{Operations: operations, Rule: admissionv1.Rule{
		APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources, Scope: &scope,
	}}
}

// notSelf excludes the writes of this program: it has to work before its webhooks answer.
func notSelf() admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "not-ks-controller-manager", Expression: `request.userInfo.username != "system:serviceaccount:` +
		Namespace + ":" + service + `"`}
}

// notAtTheEndOfANamespace excludes deletions by Kubernetes' own controllers in namespaces, so that a namespace can be deleted while no
// webhook answers. They also delete objects whose owner is gone: writes of owner references are checked for that (package admission).
func notAtTheEndOfANamespace() admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "not-at-the-end-of-a-namespace",
		Expression: `!(request.operation == "DELETE" && has(request.namespace) && ` +
			`request.userInfo.username in ["` + strings.Join(admission.Controllers(), `", "`) + `"])`}
}

// notSuperuser excludes callers that kube-apiserver refuses nothing, and that could also delete the webhooks: so a cluster whose webhooks
// do not answer can be repaired.
func notSuperuser() admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "not-superuser", Expression: `!("system:masters" in request.userInfo.groups)`}
}

// registrar reconciles the webhook configurations of kube-apiserver. It writes them once the webhooks can answer, since from then on
// writes need an answer.
type registrar struct {
	api          client.AdmissionregistrationV1Interface
	entries      func() []entry
	clientConfig func(path string) admissionv1.WebhookClientConfig
	// changed receives when clientConfig has changed, and limited when entries has changed.
	changed, limited <-chan struct{}
	ready            func() error
	every            time.Duration
}

// Start implements manager.Runnable. Only the leader runs it: replicas of two versions would not agree.
func (r *registrar) Start(ctx context.Context) error {
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	first := time.NewTicker(100 * time.Millisecond)
	defer first.Stop()
	begun := false
	for {
		if r.ready() == nil {
			if !begun {
				begun = true
				first.Stop()
			}
			if err := r.register(ctx); err != nil && ctx.Err() == nil {
				klog.ErrorS(err, "kube-apiserver may not know of the webhooks as they are; this is tried again", "after", r.every)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-first.C:
		case <-r.changed:
		case <-r.limited:
		}
	}
}

// register updates both objects.
func (r *registrar) register(ctx context.Context) error {
	if err := r.validating(ctx); err != nil {
		return fmt.Errorf("keep the ValidatingWebhookConfiguration %s: %w", configuration, err)
	}
	if err := r.mutating(ctx); err != nil {
		return fmt.Errorf("keep the MutatingWebhookConfiguration %s: %w", configuration, err)
	}
	return nil
}

func configurationMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: configuration, Labels: map[string]string{iamv1beta1.LabelManagedBy: iamv1beta1.ManagedByController,
		"app.kubernetes.io/part-of": "ks-apiserver"}}
}

func (r *registrar) validating(ctx context.Context) error {
	want := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: configurationMeta(), Webhooks: r.validatingWebhooks()}
	return keep(ctx, r.api.ValidatingWebhookConfigurations(), want, func(now *admissionv1.ValidatingWebhookConfiguration) bool {
		same := equality.Semantic.DeepEqual(now.Webhooks, want.Webhooks)
		now.Webhooks, now.Labels = want.Webhooks, want.Labels
		return same
	})
}

func (r *registrar) mutating(ctx context.Context) error {
	want := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: configurationMeta(), Webhooks: r.mutatingWebhooks()}
	return keep(ctx, r.api.MutatingWebhookConfigurations(), want, func(now *admissionv1.MutatingWebhookConfiguration) bool {
		same := equality.Semantic.DeepEqual(now.Webhooks, want.Webhooks)
		now.Webhooks, now.Labels = want.Webhooks, want.Labels
		return same
	})
}

// configurations is the client of one of the two kinds.
type configurations[T any] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Create(ctx context.Context, o T, options metav1.CreateOptions) (T, error)
	Update(ctx context.Context, o T, options metav1.UpdateOptions) (T, error)
}

// keep makes the configuration, or updates it. set makes the present one what it has to be, and reports whether it was.
func keep[T any](ctx context.Context, api configurations[T], want T, set func(now T) bool) error {
	now, err := api.Get(ctx, configuration, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = api.Create(ctx, want, metav1.CreateOptions{})
	case err == nil && !set(now):
		_, err = api.Update(ctx, now, metav1.UpdateOptions{})
	}
	return err
}

// validatingWebhooks returns the webhooks with all defaults of kube-apiserver, so that the stored ones compare equal.
func (r *registrar) validatingWebhooks() []admissionv1.ValidatingWebhook {
	var out []admissionv1.ValidatingWebhook
	equivalent, seconds := admissionv1.Equivalent, int32(timeout)
	for _, e := range r.entries() {
		if !e.mutates {
			effects := admissionv1.SideEffectClassNone
			if e.reserves {
				effects = admissionv1.SideEffectClassNoneOnDryRun
			}
			out = append(out, admissionv1.ValidatingWebhook{
				Name: e.name, ClientConfig: r.clientConfig(e.path), Rules: e.rules, FailurePolicy: &e.policy, MatchPolicy: &equivalent,
				NamespaceSelector: &e.namespaces, ObjectSelector: &e.objects, SideEffects: &effects, TimeoutSeconds: &seconds,
				AdmissionReviewVersions: []string{"v1"}, MatchConditions: e.conditions,
			})
		}
	}
	return out
}

func (r *registrar) mutatingWebhooks() []admissionv1.MutatingWebhook {
	var out []admissionv1.MutatingWebhook
	none, equivalent, never, seconds := admissionv1.SideEffectClassNone, admissionv1.Equivalent, admissionv1.NeverReinvocationPolicy, int32(timeout)
	for _, e := range r.entries() {
		if e.mutates {
			out = append(out, admissionv1.MutatingWebhook{
				Name: e.name, ClientConfig: r.clientConfig(e.path), Rules: e.rules, FailurePolicy: &e.policy, MatchPolicy: &equivalent,
				NamespaceSelector: &e.namespaces, ObjectSelector: &e.objects, SideEffects: &none, TimeoutSeconds: &seconds,
				AdmissionReviewVersions: []string{"v1"}, ReinvocationPolicy: &never, MatchConditions: e.conditions,
			})
		}
	}
	return out
}

// clientConfig returns how kube-apiserver reaches a path, and the authority of the certificate that it has to find there.
func (h *webhooks) clientConfig(path string) admissionv1.WebhookClientConfig {
	if h.url != nil {
		at := h.url.JoinPath(path).String()
		return admissionv1.WebhookClientConfig{URL: &at, CABundle: h.keeper.Bundle()}
	}
	port := int32(443)
	return admissionv1.WebhookClientConfig{CABundle: h.keeper.Bundle(), Service: &admissionv1.ServiceReference{
		Namespace: Namespace, Name: service, Path: &path, Port: &port,
	}}
}
