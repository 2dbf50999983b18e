package watch

import (
	"math/rand/v2"
	"strconv"
	"time"

	"kapis.dev/ks-apiserver/pkg/query"
)

// minLifetime is the shortest lifetime of a watch without timeoutSeconds; the longest is twice that, so that clients that
// connected together don't reconnect together.
const minLifetime = 30 * time.Minute

// watchOptions are the parameters of a watch beyond those of a list (metav1.ListOptions).
type watchOptions struct {
	// version is the one after which the changes begin, empty for now.
	version string
	// initial requests the matching objects when the watch begins, endMark a bookmark after them.
	initial, endMark bool
	// bookmarks requests the version from time to time.
	bookmarks bool
	lifetime  time.Duration
}

func watchOptionsOf(q *query.Query, after string) (watchOptions, error) {
	o := watchOptions{version: q.Version, initial: q.Version == ""}
	if v, _ := q.Param("view"); v != "" {
		return o, query.Invalid("view", v, "no view together with watch: one or the other")
	}
	if err := unpaged(q); err != nil {
		return o, err
	}
	bookmarks, _, err := flag(q, "allowWatchBookmarks")
	if err != nil {
		return o, err
	}
	o.bookmarks = bookmarks
	send, asked, err := flag(q, "sendInitialEvents")
	if err != nil {
		return o, err
	}
	match, _ := q.Param("resourceVersionMatch")
	switch {
	case asked && match != "NotOlderThan":
		return o, query.Invalid("resourceVersionMatch", match, "NotOlderThan together with sendInitialEvents")
	case !asked && match != "":
		return o, query.Invalid("resourceVersionMatch", match, "sendInitialEvents together with it")
	case asked:
		o.initial, o.endMark = send, send
	}
	if _, err := strconv.ParseUint(after, 10, 64); err == nil { // it has seen what the URL asks for
		o.version, o.initial, o.endMark = after, false, false
	}
	o.lifetime, err = lifetimeOf(q)
	return o, err
}

// unpaged refuses parameters that make no sense for a stream of events.
func unpaged(q *query.Query) error {
	if q.Limit != query.All {
		v, _ := q.Param("limit")
		return query.Invalid("limit", v, "no limit together with watch: view=live follows a page")
	}
	if q.Page != 1 {
		v, _ := q.Param("page")
		return query.Invalid("page", v, "no page together with watch: view=live follows a page")
	}
	if q.Cursor != nil || q.Offset > 0 {
		return query.Invalid("cursor", "", "no cursor and no offset together with watch: view=live follows a page")
	}
	return static(q)
}

// static refuses parameters of lists.
func static(q *query.Query) error {
	if len(q.Facets) > 0 {
		v, _ := q.Param("facets")
		return query.Invalid("facets", v, "no facets in a stream: a list has them")
	}
	if q.ManagedFields {
		return query.Invalid("managedFields", "true", "no managedFields in a stream: a list has them")
	}
	return nil
}

func flag(q *query.Query, param string) (value, set bool, err error) {
	v, _ := q.Param(param)
	if v == "" {
		return false, false, nil
	}
	if value, err = strconv.ParseBool(v); err != nil {
		return false, false, query.Invalid(param, v, "true or false")
	}
	return value, true, nil
}

// lifetimeOf reads timeoutSeconds; without it, the lifetime is chosen.
func lifetimeOf(q *query.Query) (time.Duration, error) {
	v, _ := q.Param("timeoutSeconds")
	seconds, err := strconv.ParseUint(v, 10, 31)
	if err != nil && v != "" {
		return 0, query.Invalid("timeoutSeconds", v, "a number of seconds")
	}
	if seconds == 0 {
		return minLifetime + rand.N(minLifetime), nil
	}
	return time.Duration(seconds) * time.Second, nil //nolint:gosec // 31 bits
}
