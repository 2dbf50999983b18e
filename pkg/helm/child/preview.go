package child

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/record"
)

const (
	// maxChanges is how many objects a preview names, and maxFields how many fields of one.
	maxChanges = 500
	maxFields  = 50
)

// preview returns what Apply would do with each object, as kube-apiserver says. It changes nothing: the transport of the operation is
// dryRuns. Which fields would change is said, and not from what to what: no one can tell a secret of a ConfigMap from its other values.
func (o *operation) preview(ctx context.Context) (*helm.Result, error) {
	rel, _, all, err := o.draw(ctx)
	if err != nil {
		return nil, err
	}
	o.lines.phase(helm.PhasePreviewing)
	p := &preview{operation: o, originals: kube.ResourceList{}}
	var last *release.Release
	if n := len(all); n > 0 {
		if last = record.LastDeployed(all, all[n-1].Version+1); last != nil {
			p.serverSide = serverSide(last)
			p.originals, _ = p.build(last.Manifest) // what can't be read any more can't be compared
		}
	}
	var targets kube.ResourceList
	for _, doc := range documents(rel.Manifest) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		found, unknown := p.build(doc)
		for _, u := range unknown {
			p.add(helm.Change{Do: helm.DoCreate, Object: referenceOf(u),
				Problem: "its kind is not there yet: kube-apiserver was not asked"})
		}
		for _, info := range found {
			p.look(info)
		}
		targets = append(targets, found...)
	}
	for _, info := range p.originals.Difference(targets) {
		if a, err := meta.Accessor(info.Object); err == nil && a.GetAnnotations()[kube.ResourcePolicyAnno] != kube.KeepPolicy {
			p.add(helm.Change{Do: helm.DoRemove, Object: referenceOf(info.Object)})
		}
	}
	return &helm.Result{Changes: p.changes}, nil
}

// preview is what is known of a preview.
type preview struct {
	*operation
	originals  kube.ResourceList // what the last revision has
	serverSide bool              // how that was applied
	changes    []helm.Change
}

func (p *preview) add(c helm.Change) {
	if len(p.changes) < maxChanges {
		p.changes = append(p.changes, c)
	}
}

// build returns the objects of a manifest, with those apart whose kind the cluster does not have.
func (p *preview) build(manifest string) (known kube.ResourceList, unknown []runtime.Object) {
	for _, doc := range documents(manifest) {
		if found, err := p.client.Build(strings.NewReader(doc), false); err == nil {
			known = append(known, found...)
		} else if u, err := decode(doc); err == nil && u != nil {
			unknown = append(unknown, u)
		}
	}
	return known, unknown
}

// look asks kube-apiserver what would become of an object.
func (p *preview) look(info *resource.Info) {
	c := helm.Change{Do: helm.DoCreate, Object: referenceOf(info.Object)}
	if c.Object.Namespace == "" && info.Namespaced() {
		c.Object.Namespace = info.Namespace
	}
	before, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
	if err != nil && !apierrors.IsNotFound(err) {
		c.Do, c.Problem = helm.DoChange, problemOf(err)
		p.add(c)
		return
	}
	originals := kube.ResourceList{}
	if original := p.originals.Get(info); original != nil {
		originals = append(originals, original)
	}
	if err == nil {
		c.Do = helm.DoChange
		if len(originals) == 0 && !p.owns(before) {
			c.Problem = "it is there already, and not of this release"
			p.add(c)
			return
		}
	}
	if err = p.mark(info.Object); err == nil {
		_, err = p.client.Update(originals, kube.ResourceList{info}, kube.ClientUpdateOptionServerSideApply(p.serverSide, p.serverSide))
	}
	if err != nil {
		c.Problem = problemOf(err)
		p.add(c)
		return
	}
	if c.Do == helm.DoChange {
		if c.Fields = changedFields(content(before), content(info.Object)); len(c.Fields) == 0 {
			return
		}
	}
	p.add(c)
}

// What the SDK marks the objects of a release with.
const (
	labelManagedBy      = "app.kubernetes.io/managed-by"
	managedByHelm       = "Helm"
	annotationRelease   = "meta.helm.sh/release-name"
	annotationNamespace = "meta.helm.sh/release-namespace"
)

// owns reports whether an object is marked as the release's.
func (p *preview) owns(o runtime.Object) bool {
	a, err := meta.Accessor(o)
	return err == nil && a.GetLabels()[labelManagedBy] == managedByHelm && a.GetAnnotations()[annotationRelease] == p.Request.Name &&
		a.GetAnnotations()[annotationNamespace] == p.Request.Namespace
}

// mark marks an object as the release's, as the SDK does before it applies it.
func (p *preview) mark(o runtime.Object) error {
	a, err := meta.Accessor(o)
	if err != nil {
		return err
	}
	labels, annotations := a.GetLabels(), a.GetAnnotations()
	if labels == nil {
		labels = map[string]string{}
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	labels[labelManagedBy] = managedByHelm
	annotations[annotationRelease], annotations[annotationNamespace] = p.Request.Name, p.Request.Namespace
	a.SetLabels(labels)
	a.SetAnnotations(annotations)
	return nil
}

func referenceOf(o runtime.Object) (r helm.Object) {
	r.APIVersion, r.Kind = o.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	if a, err := meta.Accessor(o); err == nil {
		r.Namespace, r.Name = a.GetNamespace(), a.GetName()
	}
	return r
}

// problemOf returns why kube-apiserver refuses an object. Its messages quote what is not valid, so fields are named alone.
func problemOf(err error) string {
	var said apierrors.APIStatus
	if !errors.As(err, &said) {
		return "kube-apiserver could not be asked"
	}
	s := said.Status()
	text := fmt.Sprintf("kube-apiserver answers %d %s", s.Code, s.Reason)
	var fields []string
	if s.Details != nil {
		for _, c := range s.Details.Causes {
			if c.Field != "" && !slices.Contains(fields, c.Field) && len(fields) < 10 {
				fields = append(fields, c.Field)
			}
		}
	}
	if len(fields) > 0 {
		text += ", because of " + strings.Join(fields, ", ")
	}
	return text
}

func content(o runtime.Object) map[string]any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.Object
	}
	m, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil
	}
	return m
}

// keptByServer are fields that change with every write, or that no chart sets.
var keptByServer = []string{"status", "metadata.managedFields", "metadata.resourceVersion", "metadata.generation", "metadata.uid",
	"metadata.creationTimestamp"}

// changedFields returns the paths of the fields in which two states of an object differ, and none of their values.
func changedFields(before, after map[string]any) (paths []string) {
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		if slices.Contains(keptByServer, path) || reflect.DeepEqual(a, b) {
			return
		}
		x, isMap := a.(map[string]any)
		y, alsoMap := b.(map[string]any)
		if isMap && alsoMap {
			for _, k := range keysOf(x, y) {
				walk(join(path, k), x[k], y[k])
			}
			return
		}
		v, isList := a.([]any)
		w, alsoList := b.([]any)
		if isList && alsoList && len(v) == len(w) {
			for i := range v {
				walk(path+"["+strconv.Itoa(i)+"]", v[i], w[i])
			}
			return
		}
		paths = append(paths, path)
	}
	walk("", before, after)
	slices.Sort(paths)
	if over := len(paths) - maxFields; over > 0 {
		paths = append(paths[:maxFields], fmt.Sprintf("and %d more", over))
	}
	return paths
}

func keysOf(maps ...map[string]any) (keys []string) {
	for _, m := range maps {
		for k := range m {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// join appends a key to a path; one with dots or slashes, as those of annotations are, in brackets.
func join(path, key string) string {
	switch {
	case strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}
