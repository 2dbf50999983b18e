package installplan

import (
	"context"
	"errors"
	"reflect"
	"slices"

	extensionsv1alpha1 "kapis.dev/ks-apiserver/pkg/api/extensions/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/api/kubesphere/v1alpha1"
	"kapis.dev/ks-apiserver/pkg/controller/extensionrelease"
	"kapis.dev/ks-apiserver/pkg/controller/installer"
	"kapis.dev/ks-apiserver/pkg/extension/permission"
	"kapis.dev/ks-apiserver/pkg/helm"
)

// apply runs the operation, with the rights that it needs.
func (r *Reconciler) apply(ctx context.Context, want *wanted, record *record) (*helm.Result, error) {
	extension := want.plan.Name
	o, err := r.render(ctx, want, record)
	if err != nil {
		return nil, err
	}
	// What may be there is noted before it is.
	if err := (records{r}).kept().Begin(ctx, records{r}.name(want.plan), o.note, o.objects); err != nil {
		return nil, err
	}
	if err := r.installers().CreateAccount(ctx, extension, want.namespace); err != nil {
		return nil, err
	}
	if err := (hooks{r}).run(ctx, want, record); err != nil {
		return nil, err
	}
	var result *helm.Result
	err = r.installers().While(ctx, extension, o.rights, func() (err error) {
		request := *o.request
		// What the chart gives was judged as it was rendered first, and templates may render something else each time.
		request.Operation, request.GivesDigest = helm.Apply, o.rendered.GivesDigest
		request.KeepFailed = want.plan.Annotations[v1alpha1.AnnotationOnFailure] == v1alpha1.OnFailureKeep || !o.believed
		if o.believed { // other records may say that this operation is done, and what a failed one goes back to
			request.ID = want.id()
		}
		if result, err = r.Helm.Run(ctx, request, record.note); err == nil && result != nil {
			o.tidied = (records{r}).removeLeft(ctx, want, o, result)
		}
		return err
	})
	if err = errors.Join(err, records{r}.ended(ctx, want, o, result, err)); err == nil {
		err = hooks{r}.keep(ctx, want)
	}
	return result, err
}

// operation is what is known of an operation before it is done.
type operation struct {
	request  *helm.Request
	rendered *helm.Result
	rights   permission.Rights
	missing  []permission.Need
	// note is what is known of the release, and believed whether its records are as it says.
	note     *extensionrelease.Note
	believed bool
	objects  []permission.Object
	// left are objects that were noted as the release's, and that the chart does not have; tidied says that none of them is there any more.
	left   []permission.Object
	tidied bool
}

// render renders the chart, and finds the rights that its objects need. What it found comes with an error that says why they can't be
// given.
func (r *Reconciler) render(ctx context.Context, want *wanted, record *record) (*operation, error) {
	request, err := r.helmRequest(want.plan.Name, want.namespace)
	if err != nil {
		return nil, err
	}
	request.Chart, request.Values, request.SecretValues = want.raw, want.values, want.secret.YAML
	request.Operation = helm.Render
	rendered, reads, err := r.renderLooking(ctx, want, request, record)
	if err != nil {
		return nil, err
	}
	objects, hooks, unknown, err := extensionrelease.Objects(r.Mapper, want.namespace, rendered.Objects)
	if err != nil {
		return nil, err
	}
	o := &operation{request: request, rendered: rendered, objects: objects}
	bound := want.request.Bound()
	o.rights, o.missing = bound.ForInstallation(append(objects, hooks...))
	if len(unknown) > 0 {
		return o, &helm.Error{Reason: "UnknownKind", Transient: true, Message: "this cluster has no such kinds: " + permission.Listed(unknown)}
	}
	if len(o.missing) > 0 {
		return o, &helm.Error{Reason: "BeyondPermissions",
			Message: "the chart needs rights that its permissions.yaml does not ask for: " + permission.Listed(o.missing)}
	}
	// Objects of the former revision are deleted, or applied again if this one fails.
	recorded, formerHooks, _, err := extensionrelease.Objects(r.Mapper, want.namespace, rendered.Recorded)
	if err != nil {
		return nil, err
	}
	if o.note, err = (records{r}).kept().Noted(ctx, records{r}.name(want.plan), want.namespace); err != nil {
		return nil, err
	}
	if o.believed, err = o.note.Believes(rendered.Release, recorded); err != nil {
		return o, err
	}
	request.HoldTo(rendered.Release)
	if o.believed {
		again, _ := bound.ForInstallation(slices.Concat(recorded, formerHooks))
		o.rights.Add(again)
	} else {
		recorded = o.note.Own()
	}
	o.rights.Add(reads)
	if o.left, err = (records{r}).kept().Removable(ctx, extensionrelease.Without(o.note.Own(), slices.Concat(objects, hooks))); err != nil {
		return nil, err
	}
	o.rights.Add(permission.ForRemoval(append(recorded, extensionrelease.Without(o.left, recorded)...)))
	return o, nil
}

// maxRenderings is how often a chart is rendered to know what its templates look for.
const maxRenderings = 4

// renderLooking renders a chart until its templates look for nothing more that the installer had no right to read, and returns those
// rights.
func (r *Reconciler) renderLooking(ctx context.Context, want *wanted, request *helm.Request, record *record) (
	rendered *helm.Result, reads permission.Rights, err error) {
	bound := want.request.Bound()
	var found []permission.Object
	run := func() (err error) {
		rendered, err = r.Helm.Run(ctx, *request, record.note)
		return err
	}
	for range maxRenderings {
		if len(reads) == 0 {
			err = run()
		} else {
			err = r.installers().While(ctx, want.plan.Name, reads, run)
		}
		known := len(found)
		if rendered != nil {
			for _, l := range rendered.Lookups {
				o := permission.Object{Group: l.Group, Resource: l.Resource, Namespace: l.Namespace, Name: l.Name}
				if !slices.ContainsFunc(found, func(is permission.Object) bool { return reflect.DeepEqual(is, o) }) {
					found = append(found, o)
				}
			}
		}
		if len(found) == known || approved(want) != nil { // nobody reads anything for a chart that is not approved
			return rendered, reads, err
		}
		var missing []permission.Need
		if reads, missing = bound.ForReading(found); len(missing) > 0 {
			return nil, nil, &helm.Error{Reason: "BeyondPermissions",
				Message: "the chart looks for objects that its permissions.yaml does not ask for: " + permission.Listed(missing)}
		}
	}
	return nil, nil, &helm.Error{Reason: helm.ReasonRender, Message: "the chart looks for other objects each time that it is rendered"}
}

// helmRequest returns a request for the release of an extension, with what all operations have.
func (r *Reconciler) helmRequest(extension, namespace string) (*helm.Request, error) {
	user, groups := installer.User(extension)
	connection, err := helm.ConnectionOf(r.Config, user, groups)
	if err != nil {
		return nil, err
	}
	return &helm.Request{
		Name: r.release(extension), Namespace: namespace, Labels: map[string]string{v1alpha1.LabelExtension: extension},
		DropStatusOf: extensionsv1alpha1.GroupName, Cluster: connection,
	}, nil
}
