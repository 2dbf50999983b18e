package resourcequota

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/klog/v2"

	quotav1alpha2 "kapis.dev/ks-apiserver/pkg/api/quota/v1alpha2"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/store"
)

// Bounds of the webhook configuration, however many quotas there are and whatever they contain: one object has all rules, and no quota may
// prevent it from being written.
const (
	maxKinds      = 64
	maxWorkspaces = 1000
)

// Limits knows what quotas limit and where: kube-apiserver has to ask a Validator about these writes, and about none without quotas. So a
// Validator that is down blocks only namespaces with a quota, and there only what is limited. It is a store.Sink of resourcequotas.
type Limits struct {
	mu      sync.Mutex
	quotas  map[string]limit
	changed chan struct{}
}

// limit is what one quota limits: in one workspace, or, if that is empty, in namespaces of any.
type limit struct {
	workspace string
	kinds     []schema.GroupResource
}

var _ store.Sink = (*Limits)(nil)

// NewLimits returns Limits without quotas.
func NewLimits() *Limits {
	return &Limits{quotas: map[string]limit{}, changed: make(chan struct{}, 1)}
}

// Changed receives after a change of what Asks returns.
func (l *Limits) Changed() <-chan struct{} { return l.changed }

// Set adds a quota.
func (l *Limits) Set(o *store.Object) {
	q := &quotav1alpha2.ResourceQuota{}
	if err := json.Unmarshal(o.Raw, q); err != nil {
		klog.ErrorS(err, "A resource quota is left out: it can't be read", "resourcequota", o.Name)
		l.Delete("", o.Name)
		return
	}
	var kinds []schema.GroupResource
	for _, gr := range kindsOf(q.Spec.Quota.Hard) {
		// No kind has any other name, and one invalid name would make kube-apiserver refuse the whole list.
		if len(validation.IsDNS1123Label(gr.Resource)) == 0 && (gr.Group == "" || len(validation.IsDNS1123Subdomain(gr.Group)) == 0) {
			kinds = append(kinds, gr)
		}
	}
	workspace, ok := workspaceOf(q)
	if len(kinds) == 0 || !ok || len(validation.IsValidLabelValue(workspace)) > 0 {
		l.Delete("", o.Name)
		return
	}
	next := limit{workspace, kinds}
	l.mu.Lock()
	defer l.mu.Unlock()
	if old, ok := l.quotas[o.Name]; !ok || old.workspace != next.workspace || !slices.Equal(old.kinds, next.kinds) {
		l.quotas[o.Name] = next
		l.signal()
	}
}

// Delete removes a quota.
func (l *Limits) Delete(_, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.quotas[name]; ok {
		delete(l.quotas, name)
		l.signal()
	}
}

func (l *Limits) signal() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// Asks returns the writes that a Validator has to check, and in which namespaces; no rules if nothing is limited. System namespaces are
// never among them: without these, the Validator could not run.
func (l *Limits) Asks() ([]admissionregistrationv1.RuleWithOperations, metav1.LabelSelector) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kinds, workspaces, anywhere := map[schema.GroupResource]bool{}, map[string]bool{}, false
	for _, q := range l.quotas {
		for _, gr := range q.kinds {
			kinds[gr] = true
		}
		workspaces[q.workspace], anywhere = true, anywhere || q.workspace == ""
	}
	if len(kinds) == 0 {
		return nil, metav1.LabelSelector{}
	}
	where := metav1.LabelSelectorRequirement{Key: tenantv1beta1.LabelWorkspace, Operator: metav1.LabelSelectorOpExists}
	if !anywhere && len(workspaces) <= maxWorkspaces {
		where.Operator, where.Values = metav1.LabelSelectorOpIn, slices.Sorted(maps.Keys(workspaces))
	}
	return rulesOf(kinds), metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{where, {
		Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "kubesphere-system"},
	}}}
}

// rulesOf returns the rules for kinds. The use of a pod changes by a resize only, that of services and claims by any update.
func rulesOf(kinds map[schema.GroupResource]bool) []admissionregistrationv1.RuleWithOperations {
	const create, update = admissionregistrationv1.Create, admissionregistrationv1.Update
	sorted := slices.SortedFunc(maps.Keys(kinds), func(a, b schema.GroupResource) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource))
	})
	if len(sorted) > maxKinds {
		sorted = []schema.GroupResource{{Group: "*", Resource: "*"}}
	}
	var out []admissionregistrationv1.RuleWithOperations
	for _, gr := range sorted {
		out = append(out, rule(gr, create))
	}
	for _, changing := range [...]struct{ kind, by schema.GroupResource }{
		{claims(), claims()}, {pods(), schema.GroupResource{Resource: "pods/resize"}}, {services(), services()},
	} {
		if kinds[changing.kind] {
			out = append(out, rule(changing.by, update))
		}
	}
	return out
}

func rule(gr schema.GroupResource, operation admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	scope := admissionregistrationv1.NamespacedScope
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{operation},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{gr.Group}, APIVersions: []string{"*"}, Resources: []string{gr.Resource},
			Scope: &scope},
	}
}
