package appstore_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v2 "kapis.dev/ks-apiserver/pkg/api/application/v2"
	"kapis.dev/ks-apiserver/pkg/appstore"
)

var states = []string{"draft", "submitted", "passed", "rejected", "active", "suspended"}

func TestX30VersionsMoveAsListedAndByWhomListed(t *testing.T) {
	// What each may become; with ! it takes the right on the platform.
	want := map[string]string{
		"draft": "submitted", "submitted": "draft !passed !rejected !active", "rejected": "draft submitted", "passed": "active",
		"active": "suspended", "suspended": "!active",
	}
	for _, from := range states {
		for _, to := range states {
			allowed, review := false, false
			for _, word := range strings.Fields(want[from]) {
				allowed = allowed || strings.TrimPrefix(word, "!") == to
				review = review || word == "!"+to
			}
			err := appstore.CheckVersionMove(from, to)
			if (err == nil) != allowed || allowed && appstore.IsReview(from, to) != review {
				t.Errorf("%s to %s: %v, review %t", from, to, err, appstore.IsReview(from, to))
			}
			if err != nil && !strings.Contains(err.Error(), from) {
				t.Errorf("%s to %s: %v does not say what it is", from, to, err)
			}
		}
	}
	if err := appstore.CheckVersionMove("", "submitted"); err != nil {
		t.Errorf("what says no state is no draft: %v", err)
	}
	for _, hostile := range []string{"", "*", "Active", "active ", "draft,active"} {
		if appstore.IsVersionState(hostile) || appstore.IsAppState(hostile) || appstore.CheckVersionMove("draft", hostile) == nil {
			t.Errorf("%q is a state", hostile)
		}
	}
}

func TestX30ContentIsFixedWhereItIsReviewed(t *testing.T) {
	for _, s := range append(states, "") {
		open, deletable := s == "" || s == "draft" || s == "rejected", s != "submitted" && s != "active"
		if appstore.IsOpen(s) != open || appstore.IsDeletable(s) != deletable {
			t.Errorf("%q: open %t, deletable %t", s, appstore.IsOpen(s), appstore.IsDeletable(s))
		}
	}
}

func TestX30MovesAreRecordedTheLatestFirstAndNotForEver(t *testing.T) {
	var s v2.ApplicationVersionStatus
	for i := range 60 {
		appstore.Move(&s, "submitted", fmt.Sprint(i), "ann", metav1.NewTime(time.Unix(int64(i), 0)))
	}
	if len(s.Audits) != 50 || s.Audits[0].Message != "59" || s.Audits[49].Message != "10" || s.Message != "59" || s.UserName != "ann" ||
		s.Updated.Unix() != 59 || s.Audits[1].Updated.Unix() != 58 {
		t.Errorf("%d audits, %+v", len(s.Audits), s.Audits[0])
	}
}

func TestX31AppsFollowTheirVersions(t *testing.T) {
	for _, c := range []struct{ now, versions, want string }{
		{"", "", "draft"},
		{"draft", "draft passed", "draft"},
		{"draft", "passed active", "active"},
		{"active", "suspended active", "active"},
		{"active", "suspended", "draft"},
		{"active", "", "draft"},
		{"suspended", "active", "suspended"},
		{"suspended", "suspended draft", "suspended"},
		{"suspended", "draft", "draft"},
	} {
		if got := appstore.AppState(c.now, strings.Fields(c.versions)); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.now, c.versions, got, c.want)
		}
	}
	for _, c := range []struct{ from, want string }{{"draft", "active"}, {"active", "suspended"}, {"suspended", "active"}, {"", "active"}} {
		for _, to := range []string{"draft", "active", "suspended"} {
			if err := appstore.CheckAppMove(c.from, to); (err == nil) != (to == c.want) {
				t.Errorf("%s to %s: %v", c.from, to, err)
			}
		}
	}
}
