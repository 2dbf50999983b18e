package dynamic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"kapis.dev/ks-apiserver/pkg/caller"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

func (o *writeRequest) delete() (any, error) {
	options, err := o.deleteOptions()
	if err != nil {
		return nil, err
	}
	if err := addPrecondition(o.in, options); err != nil {
		return nil, err
	}
	out := outgoing{method: http.MethodDelete, path: o.path, contentType: typeJSON}
	checked := o.checksDeletions()
	if o.workspace == "" && !checked {
		if out.body, err = encode(options); err != nil {
			return nil, err
		}
		return o.reply(out)
	}
	return answered(caller.Remove(o.in.Context(), o.seen(""), *options, o.reader(checked),
		func(_ context.Context, now *state, bound metav1.DeleteOptions) (any, error) {
			if checked {
				if err := o.checkDeletion(now); err != nil {
					return nil, err
				}
			}
			if out.body, err = encode(&bound); err != nil {
				return nil, err
			}
			return o.attempt(out, http.StatusConflict)
		}))
}

// addPrecondition adds the version that the query may name to the options.
func addPrecondition(r *http.Request, options *metav1.DeleteOptions) error {
	query, err := web.Parameters(r, "resourceVersion")
	if err != nil {
		return err
	}
	version := query.Get("resourceVersion")
	if version == "" {
		return nil
	}
	if options.Preconditions == nil {
		options.Preconditions = &metav1.Preconditions{}
	}
	pre := options.Preconditions
	if pre.ResourceVersion != nil && *pre.ResourceVersion != version {
		return status.BadRequestf("resourceVersion is one thing in the query and another in the body: say it once")
	}
	pre.ResourceVersion = &version
	return nil
}

// deleteCollection deletes what the selectors match. Here an unknown parameter is refused, not dropped: it may have been meant to
// exclude something.
func (o *writeRequest) deleteCollection() (any, error) {
	for name := range o.in.URL.Query() {
		if !slices.Contains(web.DeleteParameters, name) && !slices.Contains(selectParams, name) {
			return nil, status.BadRequestf(
				"the parameter %.100q does not restrict what is deleted here: use %s",
				name,
				strings.Join(selectParams, " and "),
			)
		}
	}
	options, err := o.deleteOptions()
	if err != nil {
		return nil, err
	}
	query, err := web.Parameters(o.in, selectParams...)
	if err != nil {
		return nil, err
	}
	selector, err := parseSelector(query.Get("labelSelector"))
	if err != nil {
		return nil, err
	}
	if o.workspace != "" {
		within, err := labels.NewRequirement(workspaceLabel, selection.Equals, []string{o.workspace})
		if err != nil {
			return nil, status.BadRequestf("%q can't be the name of a workspace: %v", o.workspace, err)
		}
		selector = selector.Add(*within)
	}
	query.Del("labelSelector")
	if s := selector.String(); s != "" {
		query.Set("labelSelector", s)
	}
	if o.checksDeletions() {
		if err := o.checkCollection(query); err != nil {
			return nil, err
		}
	}
	out := outgoing{method: http.MethodDelete, path: o.path, query: query, contentType: typeJSON}
	if out.body, err = encode(options); err != nil {
		return nil, err
	}
	return o.reply(out)
}

func parseSelector(text string) (labels.Selector, error) {
	if strings.Contains(text, "|") {
		return nil, status.BadRequestf(
			"the parameter labelSelector has \"|\": alternatives can be listed, but not deleted at once; delete those of" +
				" each selector by a request of its own",
		)
	}
	s, err := labels.Parse(text)
	if err != nil {
		return nil, status.BadRequestf("the parameter labelSelector is no label selector: %v", err)
	}
	return s, nil
}

func (o *writeRequest) deleteOptions() (*metav1.DeleteOptions, error) {
	text, _, err := readBody(o.in, typeJSON, typeYAML)
	if err != nil {
		return nil, err
	}
	options, err := web.DeleteOptions(o.in, []byte(text))
	if err != nil {
		return nil, err
	}
	o.checked.dryRun = len(options.DryRun) > 0
	return options, nil
}

func encode(options *metav1.DeleteOptions) (string, error) {
	text, err := json.Marshal(options)
	if err != nil {
		return "", fmt.Errorf("encode the options of a deletion: %w", err)
	}
	return string(text), nil
}
