package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestDeleteOptionsAreReadStrictly(t *testing.T) { // S22
	for name, c := range map[string]struct{ query, body, want string }{
		"Nothing":            {"", " ", `{}`},
		"OfAClientOfGo":      {"", `{"kind":"DeleteOptions","apiVersion":"apps/v1","propagationPolicy":"Background"}`, `{"propagationPolicy":"Background"}`},
		"OfTheQuery":         {"?dryRun=All&orphanDependents=true", "", `{"orphanDependents":true,"dryRun":["All"]}`},
		"OfBoth":             {"?dryRun=All", `{"gracePeriodSeconds":0}`, `{"gracePeriodSeconds":0,"dryRun":["All"]}`},
		"OtherParameters":    {"?pretty=true", `{}`, `{}`},
		"Contradiction":      {"?gracePeriodSeconds=1", `{"gracePeriodSeconds":0}`, ""},
		"OtherLetters":       {"", `{"dryrun":["All"]}`, ""},
		"OtherLettersBefore": {"?dryrun=All", "", ""},
		"Unknown":            {"", `{"labelSelector":"a=b"}`, ""},
		"Twice":              {"", `{"dryRun":["All"],"dryRun":[]}`, ""},
		"AnotherKind":        {"", `{"kind":"Pod"}`, ""},
		"AnotherPolicy":      {"?propagationPolicy=Perhaps", "", ""},
		"MoreThanOne":        {"", `{}{}`, ""},
		"UnsafeDeletion":     {"", `{"ignoreStoreReadErrorWithClusterBreakingPotential":true}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := ReadDeleteOptions(httptest.NewRequest(http.MethodDelete, "/"+c.query, strings.NewReader(c.body)))
			if c.want == "" {
				if !apierrors.IsBadRequest(err) {
					t.Fatalf("got %+v, %v", d, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, err := json.Marshal(d); err != nil || string(got) != c.want {
				t.Errorf("got %s, %v, want %s", got, err, c.want)
			}
		})
	}
}
