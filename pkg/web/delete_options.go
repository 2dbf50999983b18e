package web

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigsjson "sigs.k8s.io/json"

	"kapis.dev/ks-apiserver/pkg/status"
)

// maxOptions bounds the options of a deletion, in bytes.
const maxOptions = 16 << 10

// DeleteParameters are the options of a deletion that a query may have.
var DeleteParameters = []string{"dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy"}

// ReadDeleteOptions returns the options of a deletion, of its body and of its query.
func ReadDeleteOptions(r *http.Request) (*metav1.DeleteOptions, error) {
	raw, err := ReadBody(r, maxOptions)
	if err != nil {
		return nil, err
	}
	return DeleteOptions(r, raw)
}

// DeleteOptions returns the options of a deletion whose body was read already: those of the body, which may be empty, and of the query.
// kube-apiserver reads the query only where there is no body, so a dryRun there would be ignored (S22). So they are joined here, and must
// not contradict each other.
func DeleteOptions(r *http.Request, body []byte) (*metav1.DeleteOptions, error) {
	d, err := decodeDeleteOptions(body)
	if err != nil {
		return nil, err
	}
	query, err := Parameters(r, DeleteParameters...)
	if err != nil {
		return nil, err
	}
	if err := joinDeleteOptions(d, query); err != nil {
		return nil, err
	}
	if p := d.PropagationPolicy; p != nil && *p != metav1.DeletePropagationOrphan && *p != metav1.DeletePropagationBackground &&
		*p != metav1.DeletePropagationForeground {
		return nil, status.BadRequestf("propagationPolicy can't be %.100q: it is Background, Foreground or Orphan", *p)
	}
	return d, nil
}

// decodeDeleteOptions refuses unknown and repeated members, which kube-apiserver ignores: a deletion can't be undone, and a misspelt
// option would not restrict it.
func decodeDeleteOptions(body []byte) (*metav1.DeleteOptions, error) {
	d := &metav1.DeleteOptions{}
	if len(body) == 0 {
		return d, nil
	}
	unknown, err := sigsjson.UnmarshalStrict(body, d)
	switch {
	case err != nil:
		return nil, status.BadRequestf("the body of a deletion must be DeleteOptions, or nothing")
	case len(unknown) > 0:
		return nil, status.BadRequestf("the body of a deletion must be DeleteOptions, or nothing: %.200s", unknown[0].Error())
	case d.Kind != "" && d.Kind != "DeleteOptions":
		return nil, status.BadRequestf("the body of a deletion must be DeleteOptions, it is a %.100q", d.Kind)
	case d.IgnoreStoreReadErrorWithClusterBreakingPotential != nil:
		return nil, status.BadRequestf("ignoreStoreReadErrorWithClusterBreakingPotential is not supported here: ask kube-apiserver itself")
	}
	d.TypeMeta = metav1.TypeMeta{} // kube-apiserver knows what it is
	return d, nil
}

// joinDeleteOptions adds the options of a query to d.
func joinDeleteOptions(d *metav1.DeleteOptions, query url.Values) error {
	for _, name := range DeleteParameters {
		values, ok := query[name]
		if !ok {
			continue
		}
		one := values[0]
		var contradicts, wrong bool
		switch name {
		case "dryRun":
			contradicts = d.DryRun != nil && !slices.Equal(d.DryRun, values)
			d.DryRun = values
		case "gracePeriodSeconds":
			n, err := strconv.ParseInt(one, 10, 64)
			wrong, contradicts = err != nil, d.GracePeriodSeconds != nil && *d.GracePeriodSeconds != n
			d.GracePeriodSeconds = &n
		case "orphanDependents":
			orphan, err := strconv.ParseBool(one)
			//nolint:staticcheck // deprecated, not gone
			wrong, contradicts = err != nil, d.OrphanDependents != nil && *d.OrphanDependents != orphan
			d.OrphanDependents = &orphan //nolint:staticcheck // likewise
		case "propagationPolicy":
			policy := metav1.DeletionPropagation(one)
			contradicts = d.PropagationPolicy != nil && *d.PropagationPolicy != policy
			d.PropagationPolicy = &policy
		}
		switch {
		case wrong:
			return status.BadRequestf("the parameter %s can't be %.100q", name, one)
		case contradicts:
			return status.BadRequestf("%s is one thing in the query and another in the body: say it once", name)
		case len(values) > 1 && name != "dryRun":
			return status.BadRequestf("the parameter %s is given twice: give it once", name)
		}
	}
	return nil
}
