package installplan

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/hookjob"
	"kapis.dev/ks-apiserver/pkg/controller/installer"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// reasonHookFailed is why an operation failed whose hook image did not end well.
const reasonHookFailed = "HookFailed"

// The actions that hook images run before.
const actionInstall, actionUpgrade, actionUninstall = "install", "upgrade", "uninstall"

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
	action := actionInstall
	if isInstalled(&want.plan.Status.InstallationStatus) {
		action = actionUpgrade
	}
	out := h.make(want.plan, want.namespace, action)
	if out.Image = m.HookImage(out.Action); out.Image == "" {
		return nil, nil //nolint:nilnil // nil is none
	}
	return out, nil
}

// make returns the hook of an action on the release of a plan, without its image.
func (h hooks) make(plan *v1alpha1.InstallPlan, namespace, action string) *hookjob.Hook {
	out := &hookjob.Hook{
		Namespace: namespace, Name: h.release(plan.Name) + "-hook", Account: installer.Account(plan.Name), Action: action,
		Labels:      map[string]string{v1alpha1.LabelExtension: plan.Name, installer.Label: plan.Name},
		ClusterRole: "host", ClusterName: h.Host, NodeSelector: h.Settings.NodeSelector,
	}
	if h.Member && !h.onHub {
		out.ClusterRole, out.ClusterName = "member", plan.Annotations[v1alpha1.AnnotationAgentCluster]
	}
	return out
}

// run runs the hook of an operation in the namespace of the release, with the rights that were approved while it runs.
func (h hooks) run(ctx context.Context, want *wanted, record *record) error {
	hook, err := h.of(want)
	if err != nil || hook == nil {
		return err
	}
	bound := want.request.Bound()
	if err = h.start(ctx, want.plan.Name, hook, &bound, record); err == nil || ctx.Err() != nil {
		return err
	}
	var failed *hookjob.Failed
	if isRun := errors.As(err, &failed); isRun || errors.Is(err, errHook) {
		return &helm.Error{Reason: reasonHookFailed, Transient: !isRun, Message: helm.Clip(err.Error()+". Nothing was changed", maxMessage)}
	}
	return err
}

// errHook says that a hook did not run to its end.
var errHook = errors.New("the hook image did not run")

// start runs a hook, with the rights of a bound while it runs.
func (h hooks) start(ctx context.Context, extension string, hook *hookjob.Hook, bound *permission.Bound, record *record) error {
	record.note(helm.Event{Message: "the hook image " + hook.Image + " runs as the Job " + hook.Name})
	making := permission.Rights{hook.Namespace: {
		{APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
		{APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: []string{"delete", "get"},
			ResourceNames: []string{hook.Name}},
	}}
	return h.installers().While(ctx, extension, making, func() error {
		all := permission.Rights{hook.Namespace: bound.Rules}
		if len(bound.Cluster) > 0 {
			all[""] = bound.Cluster
		}
		if err := h.installers().GiveHook(ctx, extension, hook.Namespace, all); err != nil {
			return err
		}
		user, groups := installer.User(extension)
		as, err := h.As(user, groups)
		if err != nil {
			return err
		}
		var failed *hookjob.Failed
		if err = hook.Run(ctx, as); err == nil || ctx.Err() != nil || errors.As(err, &failed) {
			return err
		}
		return fmt.Errorf("%w: %w", errHook, err)
	})
}
