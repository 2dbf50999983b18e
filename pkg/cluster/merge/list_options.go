package merge

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"kapis.dev/ks-apiserver/pkg/cluster/merge/row"
	"kapis.dev/ks-apiserver/pkg/cluster/merge/version"
	"kapis.dev/ks-apiserver/pkg/query"
)

const (
	// mostItems is how long a page is at most, and where nothing is said.
	mostItems = 500
	// The time of a cluster.
	defaultTimeout, minTimeout, maxTimeout = time.Second, 50 * time.Millisecond, 10 * time.Second
	// sortCluster is the sort key, and the facet, that is the cluster itself.
	sortCluster = "cluster"
)

// Options are the parameters of a question over all clusters that no single cluster gets.
type Options struct {
	// Clusters are the names of those that are asked, nil for all, and Selector selects them by their labels, nil for all.
	Clusters []string
	Selector labels.Selector

	requireAll bool
	timeout    time.Duration
	next       string
	page       int
	limit      int
	order      order
	facets     string
	// facetNames are the names that clusters give the facets.
	facetNames []string
	byCluster  bool
	live       bool
	limited    bool
	form       row.Form
	values     url.Values
	version    string
}

// ParseOptions reads the parameters of a request. The error is a 400 that names the parameter.
func ParseOptions(values url.Values) (*Options, error) {
	o := &Options{values: url.Values{}, timeout: defaultTimeout, order: order{cluster: -1}}
	for k, v := range values {
		o.values[k] = v
	}
	if names := o.take("clusters"); names != "" && names != "*" {
		for name := range strings.SplitSeq(names, ",") {
			if name != "" && !slices.Contains(o.Clusters, name) {
				o.Clusters = append(o.Clusters, name)
			}
		}
		if len(o.Clusters) > maxSources {
			return nil, query.Invalid("clusters", names, "at most 512 names")
		}
	}
	for _, step := range [...]func() error{o.parseSources, o.parseOrder, o.parsePage} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// AsTable has the answer be a Table of Kubernetes, whose first column is the cluster.
func (o *Options) AsTable() {
	o.form.Table = true
	if o.values.Get("includeObject") == "None" { // rows are told apart by their objects
		o.values.Del("includeObject")
	}
}

// Table reports whether the answer is a Table.
func (o *Options) Table() bool { return o.form.Table }

// Live reports whether the page is to be kept up to date.
func (o *Options) Live() bool { return o.live }

// Timeout returns how long a cluster has to answer.
func (o *Options) Timeout() time.Duration { return o.timeout }

// After returns the options for who has spent some of the clusters' time already.
func (o *Options) After(spent time.Duration) *Options {
	out := *o
	out.timeout = max(o.timeout-spent, minTimeout/2)
	return &out
}

// take returns a parameter, and leaves it out of what clusters are asked.
func (o *Options) take(name string) string {
	v := o.values.Get(name)
	o.values.Del(name)
	return v
}

func (o *Options) parseSources() (err error) {
	if text := o.take("clusterSelector"); text != "" {
		if o.Selector, err = labels.Parse(text); err != nil {
			return query.Invalid("clusterSelector", text, "a label selector of clusters")
		}
	}
	switch all := o.take("require"); all {
	case "":
	case "all":
		o.requireAll = true
	default:
		return query.Invalid("require", all, "all, or nothing")
	}
	if text := o.take("memberTimeout"); text != "" {
		if o.timeout, err = time.ParseDuration(text); err != nil || o.timeout < minTimeout || o.timeout > maxTimeout {
			return query.Invalid("memberTimeout", text, "a time from 50ms to 10s")
		}
	}
	return nil
}

// parseOrder takes the cluster out of the sort keys and of the facets.
func (o *Options) parseOrder() error {
	var keys []string
	for key := range strings.SplitSeq(o.values.Get("sortBy"), ",") {
		if key == sortCluster && o.order.cluster < 0 {
			o.order.cluster = len(keys)
			continue
		}
		if key != "" {
			keys = append(keys, key)
		}
	}
	if o.order.cluster >= 0 {
		if o.order.cluster == len(keys) && len(keys) == 0 { // the default order follows
			keys = append(keys, "namespace", "name")
		}
		o.values.Set("sortBy", strings.Join(keys, ","))
	}
	var facets []string
	for f := range strings.SplitSeq(o.take("facets"), ",") {
		if f == sortCluster {
			o.byCluster = true
		} else if f != "" {
			facets = append(facets, f)
		}
	}
	o.facets = strings.Join(facets, ",")
	return nil
}

func (o *Options) parsePage() (err error) {
	o.version = o.take("resourceVersion")
	for _, own := range []string{"cursor", "offset", "every"} {
		o.values.Del(own)
	}
	view := o.values.Get("view")
	if view != "" && view != "live" {
		return query.Invalid("view", view, "live, or nothing")
	}
	o.live = view == "live"
	o.values.Del("view")
	checked := o.parameters("facets", o.facets)
	parsed, err := query.Parse(checked)
	if err != nil {
		return err
	}
	for _, path := range parsed.Facets {
		o.facetNames = append(o.facetNames, path.String())
	}
	o.limited = parsed.Limit != query.All || parsed.Page != 1
	o.order.ascending, o.limit, o.page = parsed.Ascending, parsed.Limit, parsed.Page
	switch {
	case o.limit > mostItems:
		return query.Invalid("limit", o.values.Get("limit"), "at most 500 over several clusters: the answer's next has the next page")
	case o.limit == query.All:
		o.limit = mostItems
	case o.limit < 0:
		o.limit = 0
	}
	o.next = o.take("next")
	if o.next != "" && o.page != 1 {
		return query.Invalid("next", o.next, "no page together with it")
	}
	for _, own := range []string{"limit", "page"} {
		o.values.Del(own)
	}
	return nil
}

// parameters returns what all clusters are asked, with others.
func (o *Options) parameters(more ...string) url.Values {
	v := url.Values{}
	for k, values := range o.values {
		v[k] = values
	}
	for i := 0; i < len(more); i += 2 {
		if more[i+1] != "" {
			v.Set(more[i], more[i+1])
		}
	}
	return v
}

// sum returns a text that is equal for questions over the same rows in the same order.
func (o *Options) sum(path string) string {
	v := o.parameters()
	for _, shape := range []string{"fields", "memberTimeout", "managedFields", "includeObject"} {
		v.Del(shape)
	}
	selector := ""
	if o.Selector != nil {
		selector = o.Selector.String()
	}
	// Parameters are escaped where they are joined, and a selector that is not as another one reads differently.
	d := sha256.Sum256(version.AppendParts(version.AppendParts(nil, path, v.Encode(), selector, strconv.Itoa(o.order.cluster)), o.Clusters...))
	return base64.RawURLEncoding.EncodeToString(d[:12])
}
