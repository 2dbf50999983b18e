package review

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	restful "github.com/emicklei/go-restful/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	kjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/authz"
	"kapis.dev/ks-apiserver/pkg/kapis/iam/wire"
	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/status"
)

// How many subjects are on a page of who can: by default, and at most.
const (
	subjectsOnPage    = 100
	maxSubjectsOnPage = 1000
)

// whoCanAnswer is a page of the subjects who may do something.
type whoCanAnswer struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Asked is the request in words.
	Asked string `json:"asked"`
	// Everybody says why everyone may, logged in or not; empty where it takes a binding.
	Everybody string `json:"everybody,omitempty"`
	// Subjects are those who may, with the binding: by scope, then by name. Where a role has a condition, held is false: it depends on
	// the request.
	Subjects []whoCanSubject `json:"subjects"`
	// TotalItems counts the subjects on all pages, Hidden the bindings that the caller may not see, which are on none.
	TotalItems int `json:"totalItems"`
	Hidden     int `json:"hidden,omitempty"`
}

type whoCanSubject struct {
	Scope string `json:"scope"`
	grantView
}

// whoCanQuery is the request in question, in a query or in a body.
type whoCanQuery struct {
	resourceAttributes
	Path  string `json:"path,omitempty"`
	Limit int    `json:"limit,omitempty"`
	Page  int    `json:"page,omitempty"`
}

// whoCan answers which subjects may do something. It takes the right to ask about all users.
func (v *Handler) whoCan(r *restful.Request) (any, error) {
	requester, err := v.requester(r, "whocan")
	if err != nil {
		return nil, err
	}
	ctx := r.Request.Context()
	if ok, err := requester.mayAskAbout(ctx, anybody); err != nil {
		return nil, err
	} else if !ok {
		return nil, status.Forbiddenf("who can do something may be asked with the right to create subjectaccessreviews of " + wire.Group +
			" on the platform")
	}
	q, err := readWhoCan(r.Request)
	if err != nil {
		return nil, err
	}
	info, err := q.info()
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	out := whoCanAnswer{APIVersion: wire.Group + "/" + wire.Version, Kind: "WhoCan", Asked: asked(info), Subjects: []whoCanSubject{}}
	if out.Everybody, err = v.everybody(ctx, info); err != nil {
		return nil, err
	}
	if err := requester.page(ctx, &out, v.Grants.WhoCan(info, v.Alias(info)), q); err != nil {
		return nil, err
	}
	return wire.Private{Value: out}, nil
}

func (q *whoCanQuery) info() (*request.Info, error) {
	if q.Path == "" {
		return q.resourceAttributes.info()
	}
	if q.Resource != "" {
		return nil, errors.New("say what it is about: path, or resource, but not both")
	}
	return parsePath(q.Verb, q.Path)
}

func readWhoCan(r *http.Request) (*whoCanQuery, error) {
	q := &whoCanQuery{}
	var err error
	if r.Method == http.MethodPost {
		raw, err := readReview(r)
		if err != nil {
			return nil, err
		}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, q); err != nil {
			return nil, apierrors.NewBadRequest("the body is not a JSON object with verb, group, resource, name and where, or with verb and path")
		}
	} else if q, err = queryWhoCan(r.URL.Query()); err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = subjectsOnPage
	}
	if q.Page == 0 {
		q.Page = 1
	}
	if q.Limit < 0 || q.Limit > maxSubjectsOnPage || q.Page < 0 {
		return nil, status.BadRequestf("limit is from 1 to %d, and page from 1", maxSubjectsOnPage)
	}
	return q, nil
}

func queryWhoCan(query url.Values) (*whoCanQuery, error) {
	q := &whoCanQuery{Path: query.Get("path"), resourceAttributes: resourceAttributes{
		Workspace: query.Get("workspace"), Namespace: query.Get("namespace"),
		Verb: query.Get("verb"), Group: query.Get("group"), Version: query.Get("version"),
		Resource: query.Get("resource"), Subresource: query.Get("subresource"), Name: query.Get("name"),
	}}
	for name, into := range map[string]*int{"limit": &q.Limit, "page": &q.Page} {
		s := query.Get(name)
		if s == "" {
			continue
		}
		n, err := strconv.Atoi(s)
		if err != nil {
			return nil, status.BadRequestf("%s is a number", name)
		}
		*into = n
	}
	return q, nil
}

// everybody returns why a path is open to all; "" if it is not. Rights to resources come from bindings alone.
func (v *Handler) everybody(ctx context.Context, info *request.Info) (string, error) {
	if info.IsResource {
		return "", nil
	}
	d, err := v.May.Authorize(ctx, &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, info)
	if err != nil || !d.Allowed() {
		return "", err
	}
	return d.Reason, nil
}

// page fills in the subjects of one page, from the bindings that the requester may see.
func (a *requester) page(ctx context.Context, out *whoCanAnswer, grants iter.Seq[authz.Grant], q *whoCanQuery) error {
	sight := a.visibility()
	for g := range grants {
		ok, err := sight.canSee(ctx, &g)
		switch {
		case err != nil:
			return err
		case !ok:
			out.Hidden++
			continue
		case out.TotalItems/q.Limit == q.Page-1:
			out.Subjects = append(out.Subjects, whoCanSubject{Scope: g.Scope.Scope.Label(), grantView: view(&g)})
		}
		out.TotalItems++
	}
	return nil
}
