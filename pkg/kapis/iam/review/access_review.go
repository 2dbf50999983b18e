package review

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	kjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/web"
)

// review is a SubjectAccessReview. Its spec is returned as it was sent.
type review struct {
	APIVersion string          `json:"apiVersion,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Spec       json.RawMessage `json:"spec,omitempty"`
	Status     reviewStatus    `json:"status"`
}

type reviewStatus struct {
	Allowed bool `json:"allowed"`
	// Denied says that an authorizer forbade it, so that no other can allow it.
	Denied bool   `json:"denied,omitempty"`
	Reason string `json:"reason,omitempty"`
	// EvaluationError says why there was no decision. Then it is not allowed.
	EvaluationError string `json:"evaluationError,omitempty"`
}

// reviewList is a list of reviews, with the kind that the client gave it.
type reviewList struct {
	APIVersion string          `json:"apiVersion,omitempty"`
	Kind       string          `json:"kind,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Items      []review        `json:"items"`
}

// reviewSpec is the user and the request in question.
type reviewSpec struct {
	accessQuery
	User   string              `json:"user,omitempty"`
	Groups []string            `json:"groups,omitempty"`
	UID    string              `json:"uid,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// review answers one review, a List of them, or an array of them, in the form that was sent.
func (v *Handler) review(r *restful.Request) (any, error) {
	requester, err := v.requester(r, "subjectaccessreviews")
	if err != nil {
		return nil, err
	}
	raw, err := readReview(r.Request)
	if err != nil {
		return nil, err
	}
	list, single, err := decodeReviews(raw)
	if err != nil {
		return nil, err
	}
	ctx := authz.WithoutPartialList(r.Request.Context())
	for n := range list.Items {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		requester.answer(ctx, &list.Items[n])
	}
	switch {
	case single:
		return wire.Private{Value: list.Items[0]}, nil
	case raw[0] == '[':
		return wire.Private{Value: list.Items}, nil
	}
	return wire.Private{Value: list}, nil
}

func readReview(r *http.Request) ([]byte, error) {
	raw, err := web.ReadBody(r, maxReviewBody)
	if err != nil {
		return nil, err
	}
	if len(raw) == 0 {
		return nil, apierrors.NewBadRequest("the body is empty: send a SubjectAccessReview, or a list of them")
	}
	return raw, nil
}

// decodeReviews reads a body that is not empty. A body with items is a list.
func decodeReviews(raw []byte) (list reviewList, single bool, err error) {
	var reviews []review
	if raw[0] == '[' {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &reviews); err != nil {
			return list, false, apierrors.NewBadRequest("the body is not an array of SubjectAccessReviews")
		}
		list.Items = reviews
	} else {
		var one struct {
			review
			Items *[]review `json:"items"`
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &one); err != nil {
			return list, false, apierrors.NewBadRequest("the body is not a SubjectAccessReview, nor a list of them")
		}
		if single = one.Items == nil; single {
			list.Items = []review{one.review}
		} else {
			list = reviewList{APIVersion: one.APIVersion, Kind: one.Kind, Metadata: one.Metadata, Items: *one.Items}
		}
	}
	if len(list.Items) > maxReviews {
		return list, false, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%d reviews are in the list: send %d at most",
			len(list.Items), maxReviews))
	}
	if list.Items == nil {
		list.Items = []review{}
	}
	return list, single, nil
}

// requester is the caller of a route, who asks about themselves or others.
type requester struct {
	*Handler
	user user.Info
	// about caches about whom the requester may ask.
	about map[string]bool
}

// requester returns the caller.
func (v *Handler) requester(r *restful.Request, resource string) (*requester, error) {
	ctx := r.Request.Context()
	u := request.UserFrom(ctx)
	if u == nil || u.GetName() == "" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: wire.Group, Resource: resource}, "")
	}
	return &requester{Handler: v, user: u, about: map[string]bool{}}, nil
}

// answer decides one review. A refusal is no error.
func (a *requester) answer(ctx context.Context, r *review) {
	if r.Kind == "" {
		r.APIVersion, r.Kind = wire.Group+"/"+wire.Version, "SubjectAccessReview"
	}
	var spec reviewSpec
	if err := kjson.UnmarshalCaseSensitivePreserveInts(r.Spec, &spec); err != nil {
		r.Status = reviewStatus{EvaluationError: "spec is not that of a SubjectAccessReview"}
		return
	}
	info, err := spec.info()
	if err != nil {
		r.Status = reviewStatus{EvaluationError: err.Error()}
		return
	}
	u, why, err := a.subject(ctx, &spec)
	if err != nil || u == nil {
		r.Status = reviewStatus{Reason: why}
		if err != nil {
			r.Status.EvaluationError = undecided
		}
		return
	}
	r.Status = a.decide(ctx, u, info)
	if r.Status.Allowed && u != a.user {
		_, grants := a.grants(u, info)
		if err := a.visibility().hideReason(ctx, &r.Status, grants); err != nil {
			r.Status = reviewStatus{EvaluationError: undecided}
		}
	}
}

// undecided is the answer for a decision that failed; the reason is only in the server's log.
const undecided = "it could not be decided: ask again"

func (v *Handler) decide(ctx context.Context, u user.Info, info *request.Info) reviewStatus {
	d, err := v.May.Authorize(ctx, u, info)
	switch {
	case err != nil:
		return reviewStatus{EvaluationError: undecided}
	case d.Allowed():
		return reviewStatus{Allowed: true, Reason: d.Reason}
	case d.Verdict() == authz.Partial:
		d.Reason = "not allowed for all there are, but " + d.PartialList().Reason()
	case d.Reason == "":
		d.Reason = "no role of the user, or of one of the user's groups, allows it"
	}
	return reviewStatus{Denied: d.Denied(), Reason: d.Reason}
}

// subject returns the user a review is about, or nil and the reason if the requester may not ask. Without a name, or by the
// requester's own, it is the requester. Without groups, the user's known groups are used.
func (a *requester) subject(ctx context.Context, spec *reviewSpec) (u user.Info, why string, err error) {
	switch {
	case spec.User == "" && (len(spec.Groups) > 0 || spec.UID != "" || len(spec.Extra) > 0):
		return nil, "spec.user is missing: name the user to ask about", nil
	case spec.User == "" || spec.User == a.user.GetName():
		return a.user, "", nil
	}
	ok, err := a.mayAskAbout(ctx, spec.User)
	if err != nil || !ok {
		return nil, fmt.Sprintf("about others than yourself you may ask with the right to create subjectaccessreviews of %s on the platform",
			wire.Group), err
	}
	if spec.Groups == nil && spec.UID == "" && len(spec.Extra) == 0 {
		if u := a.Users.ByName(spec.User); u != nil {
			return u.Info(), "", nil
		}
	}
	groups := spec.Groups
	switch {
	case groups != nil:
	case spec.User == user.Anonymous:
		groups = []string{user.AllUnauthenticated}
	default:
		groups = []string{user.AllAuthenticated}
	}
	return &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: groups, Extra: spec.Extra}, "", nil
}

// anybody stands for all users when the right to ask about them is checked. No user has that name.
const anybody = "*"

// mayAskAbout authorizes the creation of a review by a user's name on the platform: what users may do concerns more than one workspace.
func (a *requester) mayAskAbout(ctx context.Context, name string) (bool, error) {
	if ok, found := a.about[name]; found {
		return ok, nil
	}
	d, err := a.May.Authorize(ctx, a.user, &request.Info{
		Verb: "create", Path: "/kapis/" + wire.Group + "/" + wire.Version + "/subjectaccessreviews/" +
			name, APIPrefix: "kapis", APIGroup: wire.Group, APIVersion: wire.Version,
		Resource: "subjectaccessreviews", Name: name, IsResource: true, Scope: request.Global,
	})
	if err != nil {
		return false, fmt.Errorf("decide whether %q may ask about others: %w", a.user.GetName(), err)
	}
	a.about[name] = d.Allowed()
	return d.Allowed(), nil
}
