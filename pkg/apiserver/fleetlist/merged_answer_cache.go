package fleetlist

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"kapis.dev/ks-apiserver/pkg/cluster/merge"
	"kapis.dev/ks-apiserver/pkg/cluster/revalidate"
	"kapis.dev/ks-apiserver/pkg/resource/lru"
)

// answerBounds bounds the answers that are kept.
var answerBounds = lru.Bounds{Entries: 10_000, Bytes: 32 << 20, One: 2 << 20, Idle: pageAge}

// slotBytes is what is counted for an answer besides its text and its questions.
const slotBytes = 1 << 10

// confirmPart is which part of the clusters' time is waited for a confirmation.
const confirmPart = 4

// slot has the last answer to one list of one caller.
type slot struct {
	key string

	mu   sync.Mutex
	kept *keptAnswer
}

// keptAnswer is an answer, and what each cluster was asked for it. It is used only after all of them said that they would answer the same.
type keptAnswer struct {
	answer  *merge.Rendered
	at      time.Time // of the oldest page in it
	refused []string
	sources []keptSource
}

// keptSource is one cluster of an answer.
type keptSource struct {
	name, uid string
	missing   *merge.Missing
	questions []revalidate.Question
	// confirmation says that the cluster has confirmed them all, and nothing else since.
	confirmation atomic.Pointer[revalidate.Confirmation]
}

// slot returns where the answer to a list of a caller is kept; nil where none is.
func (l *lists) slot(u user.Info, path string, parameters url.Values, o *merge.Options) (s *slot, caller http.Header) {
	if l.Unchanged == nil || o.Table() {
		return nil, nil
	}
	caller = l.Read.Caller(u)
	text, err := json.Marshal(caller) // the names are sorted, and nothing else has the same text
	if caller == nil || err != nil {
		return nil, nil
	}
	key := lru.AppendPart(lru.AppendPart(lru.AppendPart(nil, string(text)), path), parameters.Encode())
	return l.answers.Get(lru.ShortKey(key), slotBytes, func(key string) *slot { return &slot{key: key} }), caller
}

// list answers a list. It is the answer that was given last to this caller, where every cluster says that nothing in that has changed for
// them.
func (l *lists) list(r *http.Request, u user.Info, path string, q merge.List, o *merge.Options) (any, error) {
	ctx := r.Context()
	leave, err := l.enter(u, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	if q.Sources, q.Refused, err = l.sources(ctx, u, path, o); err != nil {
		return nil, err
	}
	slot, caller := l.slot(u, path, r.URL.Query(), o)
	if slot == nil {
		a, err := l.merged(ctx, q, o)
		if err != nil {
			return nil, err
		}
		return sent{a.Render(), l.sends}, nil
	}
	begun := l.now()
	var before *keptAnswer
	var confirmed []bool
	if kept := slot.fitting(&q, begun); kept != nil {
		maps.Copy(caller, q.Header)
		if confirmed = l.confirmed(ctx, kept, &q, caller, o.Timeout()/confirmPart); !slices.Contains(confirmed, false) {
			l.countKept(kept, &q)
			return sent{kept.answer, l.sends}, nil
		}
		for i := range q.Sources {
			if is := &q.Sources[i]; confirmed[i] && !is.Own && is.Missing == nil {
				is.Ask = l.pages.confirmed(u, is, path, kept.sources[i].questions, is.Ask) //nolint:bodyclose // who asks closes it
			}
		}
		before, o = kept, o.After(l.now().Sub(begun))
	}
	asked := make([]recording, len(q.Sources))
	for i := range q.Sources {
		q.Sources[i].Ask = asked[i].of(path, q.Sources[i].Ask) //nolint:bodyclose // who asks closes it
	}
	a, err := l.merged(ctx, q, o)
	if err != nil {
		return nil, err
	}
	answer := a.Render()
	if a.Whole() {
		if kept := newKept(&q, asked, begun); kept != nil {
			kept.answer = answer
			kept.holdOn(before)
			l.keep(slot, kept)
		}
	}
	return sent{answer, l.sends}, nil
}

// merged asks the clusters.
func (l *lists) merged(ctx context.Context, q merge.List, o *merge.Options) (*merge.Answer, error) {
	a, err := q.Answer(ctx, o)
	if err != nil {
		return nil, err //nolint:wrapcheck // a Status
	}
	l.Asked.count(q.Sources, a.Missing())
	return a, nil
}

// fitting returns the answer that is kept, where it is young, and the caller may enter the same clusters, of which the same are asked.
func (s *slot) fitting(q *merge.List, now time.Time) *keptAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.kept
	if k == nil || now.Sub(k.at) > pageAge || len(k.sources) != len(q.Sources) || !slices.Equal(k.refused, q.Refused) {
		return nil
	}
	for i := range k.sources {
		of, is := &k.sources[i], &q.Sources[i]
		if of.name != is.Name || of.uid != is.UID || (of.missing == nil) != (is.Missing == nil) ||
			of.missing != nil && *of.missing != *is.Missing {
			return nil
		}
	}
	return k
}

// countKept counts an answer that is sent again.
func (l *lists) countKept(k *keptAnswer, q *merge.List) {
	l.Asked.count(q.Sources, nil)
	for i := range k.sources {
		if s := &k.sources[i]; s.missing != nil {
			l.Asked.missingAt(s.missing)
		} else if !q.Sources[i].Own {
			l.Asked.unchangedAt(s.name)
		}
	}
}

// holdOn has the clusters that were asked the same for an earlier answer be taken at their word for as long as before.
func (k *keptAnswer) holdOn(before *keptAnswer) {
	if before == nil {
		return
	}
	for i := range k.sources {
		s, was := &k.sources[i], &before.sources[i]
		if slices.Equal(s.questions, was.questions) {
			s.confirmation.Store(was.confirmation.Load())
		}
	}
}

// confirmed returns which clusters would answer as they did. Those that have said so a moment ago are not asked.
func (l *lists) confirmed(ctx context.Context, k *keptAnswer, q *merge.List, header http.Header, most time.Duration) []bool {
	out := make([]bool, len(k.sources))
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	text, err := json.Marshal(header)
	if err != nil {
		return append(out, false)
	}
	var wait sync.WaitGroup
	now := l.now()
	for i := range k.sources {
		s, is := &k.sources[i], &q.Sources[i]
		if confirmation := s.confirmation.Load(); s.missing != nil || confirmation != nil && confirmation.Holds(now) {
			out[i] = true
			continue
		}
		wait.Go(func() { out[i] = l.confirm(ctx, s, is, q.Header, text) })
	}
	wait.Wait()
	return out
}

// confirm asks a cluster whether it would answer as it did: this one itself, and a member in its stream.
func (l *lists) confirm(ctx context.Context, s *keptSource, is *merge.Source, h http.Header, header json.RawMessage) bool {
	if is.Own {
		return !slices.ContainsFunc(s.questions, func(q revalidate.Question) bool { return !answersAs(ctx, is.Ask, q, h) })
	}
	m := l.Members.ByName(s.name)
	if m == nil || m.UID != s.uid || m.Lite {
		return false
	}
	confirmation, same, err := l.Unchanged.Confirm(ctx, m, header, s.questions)
	if err != nil || !same {
		return false
	}
	s.confirmation.Store(&confirmation)
	return true
}

// answersAs reports whether a cluster answers a question as it did.
func answersAs(ctx context.Context, asks askFunc, q revalidate.Question, h http.Header) bool {
	v, err := url.ParseQuery(q.Query)
	if err != nil {
		return false
	}
	want := q.Code
	if h = h.Clone(); q.Tag != "" {
		h["If-None-Match"], want = []string{q.Tag}, http.StatusNotModified
	}
	resp, err := asks(ctx, v, h)
	if err != nil {
		return false
	}
	_ = resp.Body.Close()
	return resp.StatusCode == want
}

// keep keeps an answer.
func (l *lists) keep(s *slot, k *keptAnswer) {
	s.mu.Lock()
	s.kept = k
	s.mu.Unlock()
	bytes := slotBytes + len(s.key) + k.answer.Size()
	for i := range k.sources {
		for _, q := range k.sources[i].questions {
			bytes += 128 + len(q.Path) + len(q.Query) + len(q.Tag)
		}
		bytes += 128
	}
	l.answers.Resize(s.key, s, int64(bytes))
}

// newKept returns what is kept besides an answer; nil where a cluster could not confirm what it answered.
func newKept(q *merge.List, asked []recording, now time.Time) *keptAnswer {
	k := &keptAnswer{at: now, refused: q.Refused, sources: make([]keptSource, len(q.Sources))}
	for i := range q.Sources {
		s, is, of := &k.sources[i], &q.Sources[i], &asked[i]
		of.mu.Lock()
		questions, useless, oldest := of.questions, of.useless, of.oldest
		of.mu.Unlock()
		if is.Missing == nil && (useless || len(questions) == 0) {
			return nil
		}
		s.name, s.uid, s.questions = is.Name, is.UID, questions
		if is.Missing != nil {
			missing := *is.Missing
			s.missing = &missing
		}
		if at := now.Add(-oldest); at.Before(k.at) {
			k.at = at
		}
	}
	return k
}

// recording is what one cluster is asked for an answer.
type recording struct {
	mu        sync.Mutex
	questions []revalidate.Question
	// useless says that an answer can't be confirmed, and oldest is how old the oldest one is.
	useless bool
	oldest  time.Duration
}

// of returns ask, and records what is asked.
func (r *recording) of(path string, ask askFunc) askFunc {
	return func(ctx context.Context, v url.Values, h http.Header) (*http.Response, error) {
		q := revalidate.Question{Path: path, Query: v.Encode()}
		resp, err := ask(ctx, v, h)
		r.mu.Lock()
		defer r.mu.Unlock()
		known := false
		if err == nil {
			q, known = revalidate.Keepable(q, resp)
			age, _ := strconv.Atoi(resp.Header.Get("Age")) // 0 where it is none
			r.oldest = max(r.oldest, time.Duration(age)*time.Second)
		}
		r.questions, r.useless = append(r.questions, q), r.useless || !known
		return resp, err
	}
}
