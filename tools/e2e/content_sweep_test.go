package e2e

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	shownList = "testdata/shown.txt"
	// listeners is how many questions are under way at once. Many of them are streams, which end after a second.
	listeners = 96
)

// S78: every route and kind is asked for, as everybody, in every form of an answer, by every parameter and in every content type, while in each field and
// Secret that some are not
// shown lies a value that is nowhere else. Who is shown which of them, and where, stands in testdata/shown.txt, written and reviewed by people: anything
// else fails, and so does a
// line that nothing needs any more. In the end no log of either program has any of them, nor has an event or a metric.
func TestNoAnswerShowsWhatIsHidden(t *testing.T) {
	proves(t, "S3", "S57", "S64", "S78", "S80")
	w, list := newContentWorld(t), readShownList(t)
	begun, total := time.Now(), 0
	for _, who := range w.everybody {
		asked := w.ask(t, who, list)
		total += asked
		t.Logf("%s was answered %d questions; %v since the beginning", who.name, asked, time.Since(begun).Round(time.Second))
	}
	list.unused(t)
	total += w.watchBySocket(t, w.everybody[len(w.everybody)-1])
	w.tellsNothing(t)
	t.Logf("%d questions in %v", total, time.Since(begun).Round(time.Second))
}

// shown is a line of the list of what may be shown: WHO CLASSES ROUTE. WHO and CLASSES are lists with commas, ROUTE is a regular expression for the whole
// route.
type shown struct {
	line         string
	who, classes []string
	route        *regexp.Regexp
	used         map[string]bool
}

type shownLines []*shown

func readShownList(t *testing.T) shownLines {
	t.Helper()
	raw, err := os.ReadFile(shownList)
	if err != nil {
		t.Fatal(err)
	}
	var out shownLines
	for line := range strings.Lines(string(raw)) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) != 3 {
			t.Fatalf("%s: %q is not WHO CLASSES ROUTE", shownList, line)
		}
		route, err := regexp.Compile("^(?:" + f[2] + ")$")
		if err != nil {
			t.Fatalf("%s: %v", shownList, err)
		}
		out = append(out, &shown{strings.TrimSpace(line), strings.Split(f[0], ","), strings.Split(f[1], ","), route, map[string]bool{}})
	}
	return out
}

// allows tells whether somebody may be shown values of a class by a route.
func (l shownLines) allows(who, class, route string) bool {
	for _, s := range l {
		if slices.Contains(s.who, who) && slices.Contains(s.classes, class) && s.route.MatchString(route) {
			s.used[who], s.used[class] = true, true
			return true
		}
	}
	return false
}

// unused fails the test where a line allows more than was shown.
func (l shownLines) unused(t *testing.T) {
	t.Helper()
	for _, s := range l {
		for _, need := range slices.Concat(s.who, s.classes) {
			if !s.used[need] {
				t.Errorf("in %s, and not needed for %q: %s", shownList, need, s.line)
			}
		}
	}
}

// found is what was in an answer.
type found struct {
	contentQuestion
	classes []string
	wrong   string
}

// ask asks everything as who, and returns how many questions that was.
func (w *contentWorld) ask(t *testing.T, who asker, list shownLines) int {
	t.Helper()
	all := w.contentQuestions()
	answers := make([]found, len(all))
	var seen sync.Map // the classes by what was answered: many answers are equal
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(listeners)
	for i, q := range all {
		group.Go(func() error {
			answers[i] = w.listen(ctx, t, who, q, &seen)
			return nil
		})
	}
	_ = group.Wait() // errors are in the answers
	wrong := map[string]string{}
	for _, a := range answers {
		if a.wrong != "" {
			wrong[a.route] = a.wrong
		}
		for _, class := range a.classes {
			if !list.allows(who.name, class, a.route) {
				wrong[a.route+" "+class] = fmt.Sprintf("%s is in the answer to %s %s %q", class, a.method, a.path, a.headers)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wrong)) {
		t.Errorf("%s: %s: %s", who.name, key, wrong[key])
	}
	if who.token != "" { // that all was refused since the login was over says nothing
		who.must(t, http.StatusOK, http.MethodGet, "/kapis/version/", nil)
	}
	return len(all)
}

// listen asks one question, and searches all of the answer.
func (w *contentWorld) listen(ctx context.Context, t *testing.T, who asker, q contentQuestion, seen *sync.Map) found {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var body any
	if q.body != "" {
		body = q.body
	}
	r, err := who.whenLoaded(ctx, q.method, q.path, body, q.headers...)
	switch {
	case err != nil:
		return found{q, nil, fmt.Sprintf("%s %s: %v", q.method, q.path, err)}
	case breaks(r.code, q.path) && !strings.Contains(q.path, "/proxy") && !strings.Contains(r.body,
		"content is not a list"): // kube-apiserver's, to a list form of one custom resource
		return found{q, nil, fmt.Sprintf("it breaks: %s %s %q: %d %s", q.method, q.path, q.headers, r.code, clip(r.body))}
	}
	var head strings.Builder
	_ = r.header.Write(&head)
	classes := w.classes(head.String())
	sum := sha256.Sum256([]byte(r.body))
	inBody, ok := seen.Load(sum)
	if !ok {
		inBody = w.classes(unpacked(t, r))
		seen.Store(sum, inBody)
	}
	return found{q, slices.Concat(classes, inBody.([]string)), ""}
}
