package agent

import (
	"net/http"
	"strconv"
	"testing"

	"kapis.dev/ks-apiserver/pkg/cluster/join"
)

// F4: a member links to different replicas of its hub as far as there are; what it meets again it leaves, unless it has looked for long.
func TestAMemberLooksForDifferentReplicas(t *testing.T) {
	r := &replicas{}
	answer := func(id string, all int) http.Header {
		return http.Header{join.HeaderReplica: {id}, join.HeaderReplicas: {strconv.Itoa(all)}}
	}
	meets := func(what string, h http.Header, another, want bool) (leave func()) {
		t.Helper()
		leave, met := r.meet(h, another)
		if met != want {
			t.Errorf("%s: met %v, want %v", what, met, want)
		}
		return leave
	}
	a := meets("the first", answer("a", 2), true, false)
	meets("the first again", answer("a", 2), true, true)
	b := meets("the second", answer("b", 2), true, false)
	b()
	meets("the first after the second has gone", answer("a", 2), true, true)
	again := meets("the first, after a long search", answer("a", 2), false, false)
	a()
	meets("the first, to which there is one link more", answer("a", 2), true, true)
	again()
	meets("the only one", answer("a", 1), true, false)
	meets("the only one again", answer("a", 1), true, false)
	meets("one that does not say", http.Header{}, true, false)
	meets("one that lies", http.Header{join.HeaderReplica: {"a"}, join.HeaderReplicas: {"-1"}}, true, false)
}
