package child

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/kube"
	release "helm.sh/helm/v4/pkg/release/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"kapis.dev/ks-apiserver/pkg/helm"
	"kapis.dev/ks-apiserver/pkg/helm/record"
)

// maxKept is how many objects that stay are named.
const maxKept = 100

// uninstall deletes what the newest record has and the release owns, and then the records. It can be repeated until there is no record.
func (o *operation) uninstall(ctx context.Context) (*helm.Result, error) {
	all, err := record.History(o.config.Releases, o.Request.Name)
	if err != nil || len(all) == 0 {
		return &helm.Result{}, err
	}
	if !o.agrees(all) {
		return o.newest(all), o.changedRecord()
	}
	o.lines.phase(helm.PhaseApplying)
	if o.Request.Orphan {
		for _, r := range all {
			if _, err := o.config.Releases.Delete(r.Name, r.Version); err != nil {
				return nil, err
			}
		}
		return &helm.Result{}, nil
	}
	client := &tolerant{Client: o.client, mapper: o.getter.mapper, leavesForbidden: o.Request.SkipHooks}
	client.isGone = func(namespace string) bool { return isGone(ctx, o.namespaces, namespace) }
	o.config.KubeClient = client
	if err := o.deleteFormer(all, client); err != nil {
		return o.newest(all), err
	}
	a := action.NewUninstall(o.config)
	a.WaitStrategy, a.Timeout, a.DisableHooks, a.IgnoreNotFound = kube.HookOnlyStrategy, o.hookTimeout(), o.Request.SkipHooks, true
	response, err := a.Run(o.Request.Name)
	if err != nil {
		if cause := o.lines.lastCause(); cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return o.newest(all), err
	}
	kept := client.kept
	if response != nil {
		for line := range strings.SplitSeq(response.Info, "\n") {
			if line = strings.TrimSpace(line); line != "" {
				kept = append(kept, line)
			}
		}
	}
	return &helm.Result{Kept: kept[:min(len(kept), maxKept)]}, nil
}

// isGone reports whether there is no namespace of a name, or not for long.
func isGone(ctx context.Context, all typedcorev1.NamespaceInterface, name string) bool {
	is, err := all.Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && !is.DeletionTimestamp.IsZero()
}

// deleteFormer deletes what the last deployed revision has and a failed one after it has not: the SDK deletes what the newest record
// has, and an upgrade that failed has not deleted it yet.
func (o *operation) deleteFormer(all []*release.Release, client *tolerant) error {
	newest := all[len(all)-1]
	former := record.LastDeployed(all, newest.Version)
	if record.Base(all) == newest || former == nil {
		return nil
	}
	type identity struct {
		kind            schema.GroupKind
		namespace, name string
	}
	of := func(u *unstructured.Unstructured) identity {
		return identity{u.GroupVersionKind().GroupKind(), u.GetNamespace(), u.GetName()}
	}
	has := map[identity]bool{}
	for _, doc := range documents(newest.Manifest) {
		if u, err := decode(doc); err == nil && u != nil {
			has[of(u)] = true
		}
	}
	var rest strings.Builder
	for _, doc := range documents(former.Manifest) {
		if u, err := decode(doc); err == nil && u != nil && !has[of(u)] && u.GetAnnotations()[kube.ResourcePolicyAnno] != kube.KeepPolicy {
			rest.WriteString("---\n" + doc + "\n")
		}
	}
	there, err := client.Build(strings.NewReader(rest.String()), false)
	if err != nil {
		return err
	}
	own, err := client.owned(there, o.Request.Name, o.Request.Namespace)
	if len(own) == 0 || err != nil {
		return err
	}
	_, errs := o.client.Delete(own, metav1.DeletePropagationBackground)
	return errors.Join(errs...)
}

// tolerant is a client that leaves out objects whose kinds are gone: there is nothing to delete, and an uninstallation must not fail
// for ever. It fails for what can't be read: the SDK would leave that, and delete the records.
type tolerant struct {
	*kube.Client
	mapper meta.RESTMapper
	// leavesForbidden says that what the user may not read is left, and named.
	leavesForbidden bool
	// isGone reports whether there is no namespace of a name any more, or not for long: nobody is given a right in it, and what it has goes
	// with it.
	isGone func(namespace string) bool
	kept   []string
}

// Build implements kube.Interface. The SDK validates what it creates, which is hooks, and nothing else.
func (t *tolerant) Build(in io.Reader, validate bool) (kube.ResourceList, error) {
	raw, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	var rest strings.Builder
	for _, doc := range documents(string(raw)) {
		u, err := decode(doc)
		if err != nil {
			return nil, err
		}
		if u == nil {
			continue
		}
		if !u.IsList() {
			gvk := u.GroupVersionKind()
			_, err := t.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
			if meta.IsNoMatchError(err) {
				t.kept = append(t.kept, fmt.Sprintf("%s %s: the cluster has no such kind any more", gvk.Kind, u.GetName()))
				continue
			}
			if err != nil {
				return nil, err
			}
		}
		rest.WriteString("---\n" + doc + "\n")
	}
	if rest.Len() == 0 {
		return nil, nil
	}
	all, err := t.Client.Build(strings.NewReader(rest.String()), validate)
	if err != nil || validate {
		return all, err
	}
	return t.readable(all)
}

// owned returns those of some objects that are a release's own.
func (t *tolerant) owned(all kube.ResourceList, name, namespace string) (own kube.ResourceList, err error) {
	for _, info := range all {
		switch is, err := isOwned(info, name, namespace); {
		case apierrors.IsForbidden(err) && t.leavesForbidden:
			t.kept = append(t.kept, fmt.Sprintf("%s %s: %v", info.Mapping.GroupVersionKind.Kind, info.Name, err))
		case err != nil:
			return nil, err
		case is:
			own = append(own, info)
		}
	}
	return own, nil
}

// readable returns objects without those of namespaces that are gone, and an error if it can't be told whether one is there.
func (t *tolerant) readable(all kube.ResourceList) (out kube.ResourceList, err error) {
	var failed []error
	for _, info := range all {
		_, err := resource.NewHelper(info.Client, info.Mapping).Get(info.Namespace, info.Name)
		if apierrors.IsForbidden(err) && info.Namespace != "" && t.isGone(info.Namespace) {
			continue
		}
		if err != nil && !apierrors.IsNotFound(err) && (!t.leavesForbidden || !apierrors.IsForbidden(err)) {
			failed = append(failed, fmt.Errorf("read the %s %s, which is to be deleted: %w", info.Mapping.GroupVersionKind.Kind, info.Name, err))
		}
		out = append(out, info)
	}
	return out, errors.Join(failed...)
}
