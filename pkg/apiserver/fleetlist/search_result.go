package fleetlist

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/rawjson"
	"kapis.dev/ks-apiserver/pkg/resource/httpcache"
	"kapis.dev/ks-apiserver/pkg/status"
	"kapis.dev/ks-apiserver/pkg/web"
)

// mostFoundBytes bounds the objects of all kinds of one search.
const mostFoundBytes = 8 << 20

// hits are the objects of one kind that a search has found: a page of the list over clusters whose path and parameters are list.
type hits struct {
	kind, list string
	// page is the first page of the list, and err why there is none: a Status.
	page *merge.Answer
	err  error
}

// bytes is how many bytes the objects have.
func (h *hits) bytes() (n int) {
	for _, item := range h.page.Items() {
		n += item.Len()
	}
	return n
}

// found is the answer to a search over kinds. It is a web.Responder.
type found struct {
	kinds   []hits
	missing []merge.Missing
	refused []string
	by      *httpcache.Responses
}

var _ web.Responder = (*found)(nil)

// newFound returns the answer of a search. The error is a Status: that of the kinds, where there is no page of any.
func newFound(all []hits, by *httpcache.Responses) (*found, error) {
	f := &found{kinds: all, by: by}
	bytes, answered := 0, 0
	for i := range all {
		h := &all[i]
		if h.err != nil {
			continue
		}
		if bytes += h.bytes(); bytes > mostFoundBytes {
			return nil, status.Errorf(http.StatusRequestEntityTooLarge,
				"what was found has more than %d bytes: ask for fewer kinds, or for parts of objects with fields", mostFoundBytes)
		}
		answered++
		for _, m := range h.page.Missing() {
			if !slices.ContainsFunc(f.missing, func(seen merge.Missing) bool { return seen.Name == m.Name }) {
				f.missing = append(f.missing, m)
			}
		}
		for _, name := range h.page.Refused() {
			if !slices.Contains(f.refused, name) {
				f.refused = append(f.refused, name)
			}
		}
	}
	if answered == 0 {
		return nil, worst(all)
	}
	slices.SortFunc(f.missing, func(a, b merge.Missing) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(f.refused)
	return f, nil
}

// worst returns the error that says most of why no kind was answered: that clusters do not answer before that the caller may not.
func worst(all []hits) error {
	var first error
	for i := range all {
		if apierrors.IsServiceUnavailable(all[i].err) {
			return all[i].err
		}
		if first == nil || apierrors.IsNotFound(first) {
			first = all[i].err
		}
	}
	return first
}

// Respond implements web.Responder.
func (f *found) Respond(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if len(f.missing) > 0 {
		names := make([]string, len(f.missing))
		for i, m := range f.missing {
			names[i] = m.Name
		}
		h.Set(merge.HeaderMissing, strings.Join(names, ","))
	}
	h.Set("Cache-Control", "private, no-store")
	send(f.by, w, r, &httpcache.Content{Items: f.text()})
}

// text is {results:[{kind,list,totalItems,next,clusters,items}],clusters:{missing,refused}}.
func (f *found) text() []byte {
	b := []byte(`{"results":[`)
	for i := range f.kinds {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.kinds[i].appendTo(b)
	}
	about, err := json.Marshal(struct {
		Missing []merge.Missing `json:"missing"`
		Refused []string        `json:"refused,omitempty"`
	}{append([]merge.Missing{}, f.missing...), f.refused})
	if err != nil {
		about = []byte("{}") // names and times can be encoded
	}
	return append(append(append(b, `],"clusters":`...), about...), '}')
}

func (h *hits) appendTo(b []byte) []byte {
	b = rawjson.AppendString(append(b, `{"kind":`...), h.kind)
	b = rawjson.AppendString(append(b, `,"list":`...), h.list)
	if h.err != nil {
		return append(append(append(b, `,"totalItems":0,"items":[],"error":`...), errorText(h.err)...), '}')
	}
	b = strconv.AppendInt(append(b, `,"totalItems":`...), int64(h.page.Total()), 10)
	if h.page.Next() != "" {
		b = rawjson.AppendString(append(b, `,"next":`...), h.page.Next())
	}
	b = append(append(b, `,"clusters":`...), h.page.Clusters()...)
	b = append(b, `,"items":[`...)
	for i, item := range h.page.Items() {
		if i > 0 {
			b = append(b, ',')
		}
		b = item.AppendTo(b)
	}
	return append(b, "]}"...)
}

// errorText is {code,reason,message}. What is no Status says nothing of what went wrong.
func errorText(err error) []byte {
	var api *apierrors.StatusError
	if !errors.As(err, &api) {
		api = status.Errorf(http.StatusInternalServerError, "the kind could not be searched")
	}
	text, err := json.Marshal(struct {
		Code    int32               `json:"code"`
		Reason  metav1.StatusReason `json:"reason"`
		Message string              `json:"message"`
	}{api.ErrStatus.Code, api.ErrStatus.Reason, api.ErrStatus.Message})
	if err != nil {
		return []byte("{}") // texts can be encoded
	}
	return text
}
