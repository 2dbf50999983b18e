package installplan

import (
	"context"
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/hookjob"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// reasonHookFailed is why an operation failed whose hook image did not end well.
const reasonHookFailed = "HookFailed"

// The actions that hook images run before.
const actionInstall, actionUpgrade = "install", "upgrade"

// As returns a client as a user in some groups.
type As func(user string, groups []string) (client.Client, error)

// impersonated returns clients that impersonate.
func impersonated(own *rest.Config, of client.Client) As {
	return func(user string, groups []string) (client.Client, error) {
		cfg := rest.CopyConfig(own)
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return client.New(cfg, client.Options{Scheme: of.Scheme(), Mapper: of.RESTMapper()})
	}
}

// hooks runs the images that charts want to be run before an operation.
type hooks struct{ *Reconciler }

// of returns the hook of an operation, nil for none.
func (h hooks) of(want *wanted) (*hookjob.Hook, error) {
	m, err := want.archive.Metadata()
	if err != nil {
		return nil, err
	}
	out := &hookjob.Hook{
		Namespace: want.namespace, Name: h.release(want.plan.Name) + "-hook", Account: installerAccount(want.plan.Name), Action: actionInstall,
		Labels:      map[string]string{v1alpha1.LabelExtension: want.plan.Name, labelInstaller: want.plan.Name},
		ClusterRole: "host", ClusterName: h.Host, NodeSelector: want.settings.NodeSelector,
	}
	if isInstalled(&want.plan.Status.InstallationStatus) {
		out.Action = actionUpgrade
	}
	if h.Member {
		out.ClusterRole, out.ClusterName = "member", want.plan.Annotations[v1alpha1.AnnotationAgentCluster]
	}
	if out.Image = m.HookImage(out.Action); out.Image == "" {
		return nil, nil //nolint:nilnil // nil is none
	}
	return out, nil
}

// run runs the hook of an operation in the namespace of the release, with the rights that were approved while it runs.
func (h hooks) run(ctx context.Context, want *wanted, record *record) error {
	extension := want.plan.Name
	hook, err := h.of(want)
	if err != nil || hook == nil {
		return err
	}
	record.note(helm.Event{Message: "the hook image " + hook.Image + " runs as the Job " + hook.Name})
	making := permission.Rights{want.namespace: {
		{APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
		{APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: []string{"delete", "get"},
			ResourceNames: []string{hook.Name}},
	}}
	return h.withRights(ctx, extension, making, func() error {
		bound := want.request.Bound()
		all := permission.Rights{want.namespace: bound.Rules}
		if len(bound.Cluster) > 0 {
			all[""] = bound.Cluster
		}
		account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: want.namespace, Name: hook.Account}
		if _, err := h.give(ctx, extension, hookRole(extension), account, all); err != nil {
			return err
		}
		user, groups := installer(extension)
		as, err := h.As(user, groups)
		if err != nil {
			return err
		}
		if err = hook.Run(ctx, as); err == nil || ctx.Err() != nil {
			return err
		}
		var failed *hookjob.Failed
		return &helm.Error{Reason: reasonHookFailed, Transient: !errors.As(err, &failed), Message: helm.Clip(err.Error(), maxMessage)}
	})
}
