package resource

import (
	"net/http"
	"testing"

	"kapis.dev/ks-apiserver/pkg/request"
	"kapis.dev/ks-apiserver/pkg/resource/plan"
)

func TestARightToWatchAnswersWatchesOnly(t *testing.T) { // S2
	pods := func(verb, namespace, name string) *request.Info {
		return &request.Info{IsResource: true, Verb: verb, APIVersion: "v1", Resource: "pods", Namespace: namespace, Name: name}
	}
	for _, c := range []struct {
		claim       string
		info        *request.Info
		scope       plan.Scope
		name        string
		list, other int32 // the codes of CheckListRoute and CheckRoute; 0 for success
		watch       bool
	}{
		{"AList", pods("list", "a", ""), plan.Scope{Namespace: "a"}, "", 0, 0, false},
		{"AWatch", pods("watch", "a", ""), plan.Scope{Namespace: "a"}, "", 0, http.StatusMethodNotAllowed, true},
		{"AWatchOfOne", pods("watch", "a", "p"), plan.Scope{Namespace: "a"}, "p", 0, http.StatusMethodNotAllowed, true},
		{"OneIsNoList", pods("get", "a", "p"), plan.Scope{Namespace: "a"}, "p", http.StatusMethodNotAllowed, 0, false},
		{"ARightToOneIsNoneToAll", pods("watch", "a", "p"), plan.Scope{Namespace: "a"}, "", http.StatusNotFound, http.StatusNotFound, false},
		{"NorToAnother", pods("watch", "a", "p"), plan.Scope{Namespace: "a"}, "q", http.StatusNotFound, http.StatusNotFound, false},
		{"NorElsewhere", pods("watch", "a", ""), plan.Scope{Namespace: "b"}, "", http.StatusNotFound, http.StatusNotFound, false},
		{"NorEverywhere", pods("watch", "a", ""), plan.Scope{}, "", http.StatusNotFound, http.StatusNotFound, false},
		{"NothingIsAuthorized", nil, plan.Scope{}, "", http.StatusNotFound, http.StatusNotFound, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			watch, err := CheckListRoute(c.info, "pods", c.scope, c.name)
			if code(err) != c.list || watch != c.watch {
				t.Errorf("AgreeList: %v %v", watch, err)
			}
			if err := CheckRoute(c.info, "pods", c.scope, c.name); code(err) != c.other {
				t.Errorf("Agree: %v", err)
			}
		})
	}
}
