package removal

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	clusterv1alpha1 "kapis.dev/ks-apiserver/pkg/api/cluster/v1alpha1"
	tenantv1beta1 "kapis.dev/ks-apiserver/pkg/api/tenant/v1beta1"
	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/binding"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/request"
)

const (
	// membersAtOnce is how many members are asked at once, and mostTold bounds what is passed on of what one says that it removed.
	membersAtOnce = 8
	mostTold      = 1000
)

// Fleet has the members of a hub.
type Fleet struct {
	// Placed returns the names of the members that have the workspace of a WorkspaceTemplate, in JSON.
	Placed func(ctx context.Context, template string) ([]string, error)
	// AsCaller sends requests to members as the caller, who has to be one who may enter them. Their paths begin with /clusters/{cluster}.
	AsCaller caller.Client
}

// inMembers removes the user from the workspace in each member that has it, as the caller. Each is asked for a dry run first, so that
// nothing is written where one refuses. Those that do not answer are added to away: they keep no user in the workspace elsewhere.
func (m *removal) inMembers(ctx context.Context, out *Removal, away *wire.Failures) error {
	if m.Fleet == nil || m.Kind != request.Workspace {
		return nil
	}
	templates, err := m.Bindings.Caches.Snapshot(ctx, tenantv1beta1.SchemeGroupVersion.WithResource("workspacetemplates"))
	if apierrors.IsNotFound(err) { // an installation without this kind
		return nil
	}
	if err != nil {
		return err
	}
	t, found := templates.Get("", m.at.Workspace)
	if !found {
		return nil
	}
	names, err := m.Fleet.Placed(ctx, t.JSON.String())
	if err != nil {
		return err
	}
	dry := &Removal{}
	names, refused := m.ask(ctx, names, caller.DryRun(m.query), dry, away)
	if err := refused.Err("nothing was written. Try again when each cluster lets you remove the user, or take the workspace out of the" +
		" cluster first"); err != nil {
		return err
	}
	if len(m.query["dryRun"]) > 0 {
		out.Removed = append(out.Removed, dry.Removed...)
		return nil
	}
	_, refused = m.ask(ctx, names, m.query, out, away)
	return refused.Err(fmt.Sprintf("%d bindings were removed in other clusters, details.causes names the clusters that are left: remove the"+
		" member again", len(out.Removed)))
}

// ask sends the removal to members, and adds what they have removed to out, in their order. It returns those that have done it, and adds
// those that do not answer to away.
func (m *removal) ask(ctx context.Context, members []string, query url.Values, out *Removal, away *wire.Failures) (done []string,
	refused *wire.Failures,
) {
	errs, told := make([]error, len(members)), make([]Removal, len(members))
	var all errgroup.Group
	all.SetLimit(membersAtOnce)
	for i, name := range members {
		all.Go(func() error {
			o := caller.Order{Method: http.MethodDelete, Query: query, Path: "/clusters/" + name + "/kapis/" + wire.Group + "/" + wire.Version +
				"/workspaces/" + m.at.Workspace + "/" + binding.Workspace.MemberResource + "/" + m.user}
			errs[i] = m.Fleet.AsCaller.Into(ctx, o, wire.Resource(binding.Workspace.MemberResource).GroupResource(), &told[i])
			return nil
		})
	}
	_ = all.Wait() // each error is in errs
	refused = &wire.Failures{}
	for i, name := range members {
		switch err := errs[i]; {
		case err == nil || hasNothing(err):
			done = append(done, name)
		case isAway(err):
			away.Add(i, "cluster "+name, err)
		default:
			refused.Add(i, "cluster "+name, err)
		}
		removed := told[i].Removed
		for _, r := range removed[:min(len(removed), mostTold)] {
			r.Cluster = name
			out.Removed = append(out.Removed, r)
		}
	}
	return done, refused
}

// isAway reports whether an error says that a member does not answer now.
func isAway(err error) bool {
	s := apierrors.APIStatus(nil)
	if !errors.As(err, &s) {
		return false
	}
	code := s.Status().Code
	return code == http.StatusBadGateway || code == http.StatusServiceUnavailable || code == http.StatusGatewayTimeout
}

// ended returns the answer to a removal that has gone as far as it can. The error names the members that are away.
func ended(out *Removal, away *wire.Failures) (*Removal, error) {
	if err := away.Err("what the user has there stays until the user is removed once more, when the cluster answers;" +
		" everything else goes now"); err != nil {
		return nil, err
	}
	return out, nil
}

// hasNothing reports whether an error of a member says that the user has nothing in the workspace there, or that there is no such
// workspace yet.
func hasNothing(err error) bool {
	s := apierrors.APIStatus(nil)
	return apierrors.HasStatusCause(err, causeNotMember) || apierrors.IsNotFound(err) && errors.As(err, &s) && s.Status().Details != nil &&
		s.Status().Details.Group == tenantv1beta1.GroupName && s.Status().Details.Kind == "workspaces"
}

// isHubs reports whether a step is on a binding of the workspace that the hub keeps here, and notes it: the hub alone writes it.
func (m *removal) isHubs(s *binding.Step, out *Removal) bool {
	if !m.Member || m.Kind != request.Workspace ||
		rawjson.GetText(string(s.Write.Old), "metadata", "labels", clusterv1alpha1.LabelFleet) == "" {
		return false
	}
	m.sent[s.Version()] = true
	out.Kept = append(out.Kept, Removed{Resource: s.Write.GVR.Resource, Namespace: s.Write.Namespace, Name: s.Write.Name})
	return true
}
