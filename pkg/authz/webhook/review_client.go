package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// The keys of a review's spec.extra that say where the request is decided, for which a SubjectAccessReview has no fields. A user's own
// extra of these names is left out.
const (
	// ExtraScope is platform, cluster, workspace or namespace.
	ExtraScope = "kapis.dev/scope"
	// ExtraWorkspace is the workspace that the request names, or that its namespace is in; absent if there is none.
	ExtraWorkspace = "kapis.dev/workspace"
)

// Bounds of the service's answer, in bytes: of the whole, and of the reason that is stored.
const (
	longestAnswer = 1 << 20
	longestReason = 1 << 10
)

// spec returns the spec of the review that the service gets.
func (a *Authorizer) spec(u user.Info, r *request.Info) authorizationv1.SubjectAccessReviewSpec {
	extra := make(map[string]authorizationv1.ExtraValue, len(u.GetExtra())+2)
	for key, values := range u.GetExtra() {
		extra[key] = values
	}
	extra[ExtraScope] = authorizationv1.ExtraValue{scopeName(r.Scope)}
	delete(extra, ExtraWorkspace)
	if workspace := a.workspace(r); workspace != "" {
		extra[ExtraWorkspace] = authorizationv1.ExtraValue{workspace}
	}
	s := authorizationv1.SubjectAccessReviewSpec{User: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: extra}
	if a.GroupsOf != nil {
		s.Groups = a.GroupsOf(u)
	}
	if !r.IsResource {
		s.NonResourceAttributes = &authorizationv1.NonResourceAttributes{Path: r.Path, Verb: r.Verb}
		return s
	}
	s.ResourceAttributes = &authorizationv1.ResourceAttributes{
		Namespace: r.Namespace, Verb: r.Verb, Group: r.APIGroup, Version: r.APIVersion, Resource: r.Resource, Subresource: r.Subresource,
		Name: r.Name,
	}
	return s
}

func (a *Authorizer) workspace(r *request.Info) string {
	if r.Namespace != "" && a.WorkspaceOf != nil {
		return a.WorkspaceOf(r.Namespace)
	}
	return r.Workspace
}

func scopeName(s request.Scope) string {
	switch s {
	case request.Cluster:
		return "cluster"
	case request.Workspace:
		return "workspace"
	case request.Namespace:
		return "namespace"
	}
	return "platform"
}

// post asks once. again reports whether the error may be temporary.
func (a *Authorizer) post(ctx context.Context, body io.Reader) (got answer, again bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, body)
	if err != nil {
		return answer{}, false, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	r.Header["Idempotency-Key"] = nil // for http.Transport: a repeated review changes nothing
	resp, err := a.client.Do(r)
	if err != nil {
		return answer{}, true, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, longestAnswer+1))
	switch {
	case err != nil:
		return answer{}, true, fmt.Errorf("read the answer: %w", err)
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return answer{}, true, fmt.Errorf("it answered %s", resp.Status)
	case resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated:
		return answer{}, false, fmt.Errorf("it answered %s", resp.Status)
	case len(text) > longestAnswer:
		return answer{}, false, fmt.Errorf("the answer has more than %d bytes", longestAnswer)
	}
	got, err = read(text)
	return got, false, err
}

// read returns the decision of a review. Allowed and denied at once is denied.
func read(text []byte) (answer, error) {
	var review struct {
		APIVersion string                                     `json:"apiVersion"`
		Kind       string                                     `json:"kind"`
		Status     *authorizationv1.SubjectAccessReviewStatus `json:"status"`
	}
	if err := json.Unmarshal(text, &review); err != nil {
		return answer{}, errors.New("the answer is not JSON")
	}
	if review.Kind != "SubjectAccessReview" || review.APIVersion != authorizationv1.SchemeGroupVersion.String() || review.Status == nil {
		return answer{}, fmt.Errorf("the answer is no SubjectAccessReview of %s with a status", authorizationv1.SchemeGroupVersion)
	}
	s := review.Status
	return answer{allowed: s.Allowed && !s.Denied, denied: s.Denied, reason: status.Clip(s.Reason, longestReason)}, nil
}
