package installplan

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

const (
	// previewNamespace is where previews are kept: the namespace of a release may not be there yet.
	previewNamespace = "kubesphere-system"
	keyPreview       = "preview.yaml"
	// maxPreview bounds a preview, in bytes.
	maxPreview = 512 << 10
)

// preview is what is said of an operation before it is done. It has no values: those of ConfigMaps may be secrets, too.
type preview struct {
	Version   string `json:"version"`
	Installed string `json:"installed,omitempty"`
	// Approved says whether the operation may be done, and Asks what its chart may do, which reaches as far as Level says.
	Approved bool   `json:"approved"`
	Asks     string `json:"asks,omitempty"`
	Level    string `json:"level,omitempty"`
	// Problems are why it would fail, or what was not looked at.
	Problems []string `json:"problems,omitempty"`
	// Rights are those that the installer would have meanwhile, by namespace, and Beyond what it would lack.
	Rights map[string][]string `json:"rights,omitempty"`
	Beyond []string            `json:"beyond,omitempty"`
	Hooks  []string            `json:"hooks,omitempty"`
	// Changes are the objects that would be created, changed or removed.
	Changes []change `json:"changes,omitempty"`
}

type change struct {
	Do      string   `json:"do"`
	Object  string   `json:"object"`
	Fields  []string `json:"fields,omitempty"`
	Problem string   `json:"problem,omitempty"`
}

// preview says what the operation that a plan asks for would do, and does none of it, as long as the plan has the annotation.
func (r *Reconciler) preview(ctx context.Context, w *writer) (reconcile.Result, error) {
	plan := w.Object
	want, err := r.choose(ctx, plan)
	if err != nil {
		return reconcile.Result{}, err
	}
	sum := sha256.Sum256([]byte(plan.Annotations[v1alpha1.AnnotationPreview]))
	done := hex.EncodeToString(sum[:4]) + "-" + want.id()
	if plan.Annotations[v1alpha1.AnnotationPreviewed] == done {
		return reconcile.Result{}, nil
	}
	p, err := r.look(ctx, want)
	if err != nil {
		return reconcile.Result{}, err
	}
	if err := r.writePreview(ctx, plan, p); err != nil {
		return reconcile.Result{}, err
	}
	metav1.SetMetaDataAnnotation(&plan.ObjectMeta, v1alpha1.AnnotationPreviewed, done)
	say(&plan.Status.InstallationStatus, v1alpha1.ConditionPreviewed, true, "Previewed", fmt.Sprintf("the ConfigMap %s/%s says what would be "+
		"done. Nothing is, as long as the plan has the annotation %s", previewNamespace, previewName(plan), v1alpha1.AnnotationPreview),
		r.Now())
	return reconcile.Result{}, nil
}

// look finds what an operation would do. The error is one of this program: what is wrong with the plan or its chart is a problem of the
// preview.
func (r *Reconciler) look(ctx context.Context, want *wanted) (*preview, error) {
	plan := want.plan
	p := &preview{Version: want.version.Spec.Version, Installed: plan.Status.Version}
	problem := func(err error) (*preview, error) {
		var of *helm.Error
		_, waiting := asWaiting(err)
		if ctx.Err() != nil || !waiting && !errors.As(err, &of) {
			return nil, err
		}
		p.Problems = append(p.Problems, err.Error())
		return p, nil
	}
	if err := r.readChart(ctx, want); err != nil {
		if reason, ok := asWaiting(err); ok && reason.again > 0 { // it is read again, and a preview without it would be made once
			return nil, err
		}
		return problem(err)
	}
	p.Approved, p.Asks, p.Level = approved(want) == nil, want.request.String(), string(want.request.Level())
	if err := (records{r}).stays(ctx, want); err != nil {
		return problem(err)
	}
	if err := r.dependencies(ctx, plan, want.version); err != nil {
		if _, err := problem(err); err != nil {
			return nil, err
		}
	}
	m, err := want.archive.Metadata()
	if err != nil {
		return problem(chartBroken(err))
	}
	if want.values, err = extensionrelease.Values(plan.Spec.Config, m, want.settings, want.to); err != nil {
		return problem(waits(v1alpha1.ConditionInitialized, "InvalidConfig", "%v", err))
	}
	o, err := r.render(ctx, want, &record{})
	if o != nil {
		p.Rights, p.Beyond, p.Hooks = byNamespace(o.rights), lines(o.missing), referencesOf(o.rendered.Objects, true)
		p.Changes = byName(o.rendered)
	}
	if err != nil {
		return problem(err)
	}
	if why := r.notAsked(ctx, want, p.Approved); why != "" {
		p.Problems = append(p.Problems, why+": kube-apiserver was not asked, and no fields are named")
		return p, nil
	}
	var result *helm.Result
	err = r.installers().While(ctx, plan.Name, o.rights, func() (err error) {
		request := *o.request
		request.Operation = helm.Preview
		result, err = r.Helm.Run(ctx, request, func(helm.Event) {})
		return err
	})
	if err != nil {
		return problem(err)
	}
	p.Changes = nil
	for i := range result.Changes {
		c := &result.Changes[i]
		p.Changes = append(p.Changes, change{Do: c.Do, Object: referenceOf(&c.Object), Fields: c.Fields, Problem: c.Problem})
	}
	return p, nil
}

// notAsked returns why kube-apiserver can't be asked what an operation would change; "" if it can.
func (r *Reconciler) notAsked(ctx context.Context, want *wanted, isApproved bool) string {
	if !isApproved {
		return "nobody has approved this"
	}
	namespace := &corev1.Namespace{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: want.namespace}, namespace); err != nil || !namespace.DeletionTimestamp.IsZero() {
		return "the namespace " + want.namespace + " is not there yet"
	}
	return ""
}

// byName returns the changes that the names of objects tell.
func byName(rendered *helm.Result) (out []change) {
	is, was := referencesOf(rendered.Objects, false), referencesOf(rendered.Recorded, false)
	for _, o := range is {
		do := helm.DoCreate
		if slices.Contains(was, o) {
			do = helm.DoChange
		}
		out = append(out, change{Do: do, Object: o})
	}
	for _, o := range was {
		if !slices.Contains(is, o) {
			out = append(out, change{Do: helm.DoRemove, Object: o})
		}
	}
	return out
}

func referencesOf(objects []helm.Object, hooks bool) (out []string) {
	for i := range objects {
		if o := &objects[i]; o.Hook == hooks {
			if name := referenceOf(o); !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// referenceOf names an object for people.
func referenceOf(o *helm.Object) string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return fmt.Sprintf("%s %s (%s)", o.Kind, name, o.APIVersion)
}

// byNamespace returns rights for people.
func byNamespace(rights permission.Rights) map[string][]string {
	out := make(map[string][]string, len(rights))
	for _, namespace := range slices.Sorted(maps.Keys(rights)) {
		name := namespace
		if name == "" {
			name = "(cluster)"
		}
		out[name] = slices.Compact(slices.Sorted(slices.Values(permission.Words(rights[namespace]))))
	}
	return out
}

func lines(needs []permission.Need) (out []string) {
	for _, n := range needs {
		out = append(out, n.String())
	}
	return out
}

func previewName(plan *v1alpha1.InstallPlan) string { return plan.Name + "-preview" }

// writePreview keeps a preview in a ConfigMap, which goes with the plan.
func (r *Reconciler) writePreview(ctx context.Context, plan *v1alpha1.InstallPlan, p *preview) error {
	text, err := yaml.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the preview of %s: %w", plan.Name, err)
	}
	owner := metav1.OwnerReference{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "InstallPlan", Name: plan.Name, UID: plan.UID}
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: previewNamespace, Name: previewName(plan),
		Labels: map[string]string{v1alpha1.LabelExtension: plan.Name}, OwnerReferences: []metav1.OwnerReference{owner}},
		Data: map[string]string{keyPreview: helm.Clip(string(text), maxPreview)}}
	err = r.put(ctx, m)
	if taken := (*nameTakenError)(nil); errors.As(err, &taken) {
		err = waitsFor(chartAgain, v1alpha1.ConditionPreviewed, "NameTaken", "%v", taken)
	}
	return err
}

// endPreview takes back what was said of a preview.
func endPreview(plan *v1alpha1.InstallPlan) {
	delete(plan.Annotations, v1alpha1.AnnotationPreviewed)
	meta.RemoveStatusCondition(&plan.Status.Conditions, v1alpha1.ConditionPreviewed)
}
